"""Makes text from outside safe for a terminal: no control characters, and no line beyond its edge.

Terminals disagree on the width of some scripts: some give the vowel signs of Indic scripts a column, others none. The
wider count is used here.
"""

import unicodedata
from bisect import bisect_left
from itertools import accumulate

from rich.cells import cell_len
from rich.text import Text

JOINERS = "\u200c\u200d"  # invisible, but Bengali and other scripts are misspelled without them
VIRAMA = 9  # canonical combining class of the signs that join two consonants


def printable(text: str) -> str:
    """The text without the characters that move the cursor, change colours or turn the line."""
    return "".join(char if char in JOINERS or unicodedata.category(char)[0] != "C" else " " for char in text)


def fit(text: str, columns: int) -> str:
    """The text, cut so that no terminal takes more than `columns` for it."""
    text = printable(text)
    widths = list(accumulate(map(width, text)))  # up to each character
    if not text or widths[-1] <= columns:
        return text
    end = bisect_left(widths, columns)
    while end and not _may_end(text, end):
        end -= 1
    return text[:end] + "…" if columns > 0 else ""


def fill(text: Text, columns: int) -> Text:
    """The text, cut or filled up to so many columns."""
    fitted = fit(text.plain, columns)
    filled = Text(fitted + " " * (columns - width(fitted)), style=text.style)
    for part in text.spans:
        filled.stylize(part.style, part.start, part.end)
    return filled


def _may_end(text: str, end: int) -> bool:
    """Whether a cut there leaves whole what is read as one: no vowel sign from its letter, no half of a conjunct."""
    before, after = text[end - 1], text[end]
    is_joined = unicodedata.category(after)[0] == "M" or after in JOINERS
    return not is_joined and before not in JOINERS and unicodedata.combining(before) != VIRAMA


def wrap(text: str, columns: int) -> list[str]:
    """The text in lines, none wider than `columns`; words that are longer are cut."""
    first, *words = printable(text).split() or [""]
    wrapped = [first]
    for word in words:
        longer = f"{wrapped[-1]} {word}"
        if width(longer) <= columns:
            wrapped[-1] = longer
        else:
            wrapped.append(word)
    return [fit(line, columns) for line in wrapped]


def width(text: str) -> int:
    """Columns that a terminal takes at most."""
    return sum(0 if unicodedata.category(char) in ("Mn", "Cf") else max(1, cell_len(char)) for char in text)
