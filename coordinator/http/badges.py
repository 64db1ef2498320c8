"""Thanks to contributors: a badge for a profile, and a list for a model card. Names cannot become markup."""

import string
import unicodedata
from collections.abc import Iterable
from urllib.parse import quote
from xml.sax.saxutils import escape

from swarm.access.user_names import BIDI_CONTROLS

HUB = "https://huggingface.co/"
HEIGHT, PADDING, LETTER, WIDE_LETTER = 20, 8, 6.5, 12.0  # pixels; letters of 11 pixels' height
ISOLATED = "\u2068{}\u2069"  # a name may be written from right to left, and what is beside it is not turned around
_DIRECTION_MARKS = dict.fromkeys(map(ord, BIDI_CONTROLS))
_MARKDOWN = {ord(sign): f"\\{sign}" for sign in string.punctuation} | {
    ord(sign): f"&#{ord(sign)};"
    for sign in "<>&\"'@:"  # escaped even where a backslash is not
}
_BADGE = """\
<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" role="img" aria-label="{label}">
<title>{label}</title>
<rect width="{width}" height="{height}" rx="3" fill="#0b5c8a"/>
<rect width="{left}" height="{height}" rx="3" fill="#3b3b3b"/>
<g fill="#fff" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11" lengthAdjust="spacingAndGlyphs">
<text x="{padding}" y="14" textLength="{left_text}" lengthAdjust="spacingAndGlyphs">{run}</text>
<text x="{right_start}" y="14" textLength="{right_text}" lengthAdjust="spacingAndGlyphs">{words}</text>
</g>
</svg>
"""


def badge(run_name: str, user: str, samples: int, rank: int, tokens_served: int = 0) -> bytes:
    """An SVG image with a user's samples in a run, or the tokens that they served if there are none, and their rank."""
    gave = (
        f"{readable(tokens_served)} tokens served" if tokens_served and not samples else f"{readable(samples)} samples"
    )
    words = f"{ISOLATED.format(without_direction(user))}: {gave}, rank {rank:,}"
    left_text, right_text = _width(run_name), _width(words)
    left = left_text + 2 * PADDING
    content = _BADGE.format(
        width=left + right_text + 2 * PADDING,
        height=HEIGHT,
        left=left,
        padding=PADDING,
        left_text=left_text,
        right_start=left + PADDING,
        right_text=right_text,
        label=escaped(f"{run_name} | {words}"),
        run=escaped(run_name),
        words=escaped(words),
    )
    return content.encode()


def thanks(run_name: str, people: Iterable[tuple[str, bool]], unnamed: int = 0) -> str:
    """A section in Markdown with names in this order, those of the Hub (True) with a link, and how many have none."""
    names = [f"[{plain(user)}]({HUB}{quote(user, safe='')})" if verified else plain(user) for user, verified in people]
    count = len(names) + unnamed
    if not count:
        return f"## Thanks\n\nNobody has contributed to {plain(run_name)} yet.\n"
    if unnamed and names:
        names.append("and one more" if unnamed == 1 else f"and {unnamed:,} more")
    volunteers = "one volunteer" if count == 1 else f"{count:,} volunteers"
    section = f"## Thanks\n\n{plain(run_name)} was pretrained by {volunteers}. Thank you!\n"
    return section + ("\n" + ",\n".join(names) + "\n" if names else "")


def readable(count: int) -> str:
    """A count with a unit of the pages, as 1.2M: two digits are enough on a badge."""
    for unit, size in (("T", 10**12), ("B", 10**9), ("M", 10**6), ("k", 10**3)):
        if count >= 0.9995 * size:
            return f"{count / size:.1f}{unit}" if count < 99.95 * size else f"{count / size:.0f}{unit}"
    return str(count)


def _width(text: str) -> int:
    """The approximate width in pixels; the image makes the text fit."""
    letters = [letter for letter in text if unicodedata.category(letter) not in ("Mn", "Me", "Cf")]
    return round(sum(WIDE_LETTER if unicodedata.east_asian_width(one) in "WF" else LETTER for one in letters))


def escaped(text: str) -> str:
    """The text for elements and attributes of XML."""
    return escape(text, {'"': "&quot;"})


def without_direction(name: str) -> str:
    """A name without the marks that change the direction of what follows it, and without control characters."""
    shown = name.translate(_DIRECTION_MARKS)
    return "".join(letter if unicodedata.category(letter) not in ("Cc", "Cs") else " " for letter in shown)


def plain(text: str) -> str:
    """The text with all punctuation escaped for Markdown."""
    return " ".join(text.translate(_DIRECTION_MARKS).translate(_MARKDOWN).split())
