"""A card to share: an image of what a user gave to a run, with the curve of its loss, bright where they were there."""

import math
import unicodedata
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from coordinator.http.badges import escaped, readable, without_direction
from swarm.language import Language

WIDTH, HEIGHT = 1200, 630  # pixels: what social networks show whole
LEFT, RIGHT = 64, 1136
CURVE_TOP, CURVE_BOTTOM = 396, 560
NAME_LEFT, NAME_SIZE, RUN_SIZE, SMALLEST = 224, 60, 34, 26
FIGURE_SIZE, LABEL_SIZE = 54, 26
THINNEST = 4.0  # pixels of the shortest visit
FONTS = "Noto Sans,Noto Sans Bengali,Segoe UI,Helvetica,Arial,sans-serif"


@dataclass(frozen=True)
class Facts:
    """What a card says. Times are unix seconds, losses are in nats."""

    run: str
    user: str
    samples: int
    tokens_served: int
    hours: float
    rank: int
    days: int  # in a row
    curve: Sequence[tuple[float, float]]  # time and loss, in order
    visits: Sequence[tuple[float, float]]  # from when to when they were there


def card(facts: Facts, language: str) -> bytes:
    """The card as an SVG image, in the language of this code."""
    _ = Language(language).text
    name, run = without_direction(facts.user), without_direction(facts.run)
    first = (readable(facts.samples), _("samples"))
    if facts.tokens_served and not facts.samples:
        first = (readable(facts.tokens_served), _("tokens served"))
    figures = (
        first,
        (readable(round(facts.hours)), _("hours")),
        (f"{facts.rank:,}", _("rank")),
        (f"{facts.days:,}", _("days in a row")),
    )
    hue = zlib.crc32(name.encode("utf-8", "replace")) % 360
    room = (RIGHT - LEFT) / len(figures)
    parts = [
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#0c2536"/>',
        f'<rect width="{WIDTH}" height="10" fill="#56b4e9"/>',
        f'<circle cx="{LEFT + 64}" cy="126" r="64" fill="hsl({hue},45%,42%)"/>',
        _text(initial(name), LEFT + 64, 150, 68, weight=700, middle=True, room=120),
        _text(name, NAME_LEFT, 122, NAME_SIZE, weight=700, room=RIGHT - NAME_LEFT),
        _text(run, NAME_LEFT, 174, RUN_SIZE, fill="#9fc3da", room=RIGHT - NAME_LEFT),
    ]
    for number, (value, label) in enumerate(figures):
        x = LEFT + number * room
        parts.append(_text(value, x, 286, FIGURE_SIZE, weight=700, room=room - 20))
        parts.append(_text(label, x, 326, LABEL_SIZE, fill="#9fc3da", room=room - 20))
    parts += _curve(facts.curve, facts.visits)
    if len(facts.curve) > 1:
        caption = _("Loss of the run; highlighted while this person took part")
        parts.append(_text(caption, LEFT, 602, 24, fill="#9fc3da", room=RIGHT - LEFT))
    label = escaped(" | ".join([run, name, *(f"{value} {what}" for value, what in figures)]))
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}"'
    start = f'{head} role="img" aria-label="{label}" font-family="{FONTS}">\n<title>{label}</title>'
    return "\n".join([start, *parts, "</svg>", ""]).encode("utf-8", "replace")


def initial(name: str) -> str:
    """The first letter of a name, with the signs that belong to it; ~ begins a name that somebody chose."""
    letters = list(name.lstrip("~").strip()) or ["?"]
    start = next((number for number, one in enumerate(letters) if one.isalnum()), 0)
    end = start + 1
    while end < len(letters) and _is_mark(letters[end]):
        end += 1
    return "".join(letters[start:end]).upper()


def fitted(text: str, room: float, size: float) -> tuple[str, float]:
    """The text and the size of its letters with which it is not wider than `room` pixels, whatever font draws it."""
    text = " ".join(text.split())
    if (needed := _ems(text) * size) <= room:
        return text, size
    smaller = max(min(size, SMALLEST), size * room / needed)
    if _ems(text) * smaller <= room:
        return text, smaller
    while text and _ems(text + "…") * smaller > room:
        text = text[:-1]
        while text and _is_mark(text[-1]):  # a sign without its letter
            text = text[:-1]
    return text.rstrip() + "…", smaller


def placed(
    curve: Sequence[tuple[float, float]], visits: Iterable[tuple[float, float]]
) -> tuple[list[tuple[float, float]], list[tuple[float, float]]]:
    """Where the curve is on the card, and where visits begin and how wide they are; empty where there is no curve."""
    if len(curve) < 2 or curve[0][0] >= curve[-1][0]:
        return [], []
    begin, end = curve[0][0], curve[-1][0]
    heights = [math.log(max(loss, 1e-3)) for _, loss in curve]  # a loss falls fast, then slowly
    low, span = min(heights), (max(heights) - min(heights)) or 1.0

    def across(time: float) -> float:
        return LEFT + (RIGHT - LEFT) * (min(max(time, begin), end) - begin) / (end - begin)

    points = [
        (across(time), CURVE_BOTTOM - (CURVE_BOTTOM - CURVE_TOP) * (height - low) / span)
        for (time, _), height in zip(curve, heights, strict=True)
    ]
    spans = []
    for since, until in visits:
        if until < begin or since > end:
            continue
        left = min(across(since), RIGHT - THINNEST)
        spans.append((left, max(THINNEST, across(until) - left)))
    return points, spans


def _curve(curve: Sequence[tuple[float, float]], visits: Iterable[tuple[float, float]]) -> list[str]:
    points, spans = placed(curve, visits)
    if not points:
        return []
    line = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
    area = f"{line}L{RIGHT} {CURVE_BOTTOM + 8}L{LEFT} {CURVE_BOTTOM + 8}Z"
    high = CURVE_BOTTOM - CURVE_TOP + 24
    there = "".join(f'<rect x="{x:.1f}" y="{CURVE_TOP - 12}" width="{wide:.1f}" height="{high}"/>' for x, wide in spans)
    return [
        f'<clipPath id="there">{there}</clipPath>',
        f'<path d="{line}" fill="none" stroke="#48697f" stroke-width="4"/>',
        f'<g clip-path="url(#there)"><path d="{area}" fill="#e69f00" fill-opacity="0.28"/>'
        f'<path d="{line}" fill="none" stroke="#ffb822" stroke-width="6"/></g>',
    ]


def _text(
    text: str,
    x: float,
    y: float,
    size: float,
    *,
    room: float,
    fill: str = "#ffffff",
    weight: int = 400,
    middle: bool = False,
) -> str:
    text, size = fitted(text, room, size)
    place = f'x="{x:.0f}" y="{y:.0f}" font-size="{size:.1f}" font-weight="{weight}" fill="{fill}"'
    anchor = "middle" if middle else "start"
    return f'<text {place} text-anchor="{anchor}">{escaped(text)}</text>'


def _is_mark(letter: str) -> bool:
    return unicodedata.category(letter) in ("Mn", "Mc", "Me", "Cf")


def _ems(text: str) -> float:
    """The width of a bold text in the size of its letters, rather too wide than too narrow."""
    return sum(map(_em, text))


def _em(letter: str) -> float:
    category = unicodedata.category(letter)
    if category in ("Mn", "Me", "Cf"):
        return 0.0
    if category == "So" or unicodedata.east_asian_width(letter) in "WF":
        return 1.4 if category == "So" else 1.05
    if letter in "mwMW@%—":
        return 1.12
    if not letter.isascii():
        return 0.82
    return 0.8 if letter.isupper() else 0.64
