"""What charts are drawn with: scales, axes and labels as elements of an SVG, and PNG made from it."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from swarm.errors import StorageError

WIDTH, HEIGHT = 760, 440
LEFT, RIGHT, TOP, BOTTOM = 64, 40, 56, 56  # around the field, in pixels
PNG_SCALE = 2  # pixels of a PNG for each of the SVG, for today's screens
INK, GRID = "#222", "#ddd"
FONT = "DejaVu Sans, Liberation Sans, Noto Sans, Helvetica, Arial, sans-serif"


@dataclass(frozen=True)
class Scale:
    """From values of an axis to pixels."""

    low: float
    high: float
    first: float
    last: float

    def __call__(self, value: float) -> float:
        """The pixel of a value."""
        return self.first + (value - self.low) / (self.high - self.low) * (self.last - self.first)


def document(parts: Iterable[str]) -> str:
    """An SVG of these elements."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}" '
        f'font-family="{FONT}" font-size="13" fill="{INK}">\n<rect width="100%" height="100%" fill="white"/>\n'
        + "\n".join(parts)
        + "\n</svg>\n"
    )


def as_png(svg: str, path: Path) -> bytes:
    """The picture in pixels; raises as `check_font`."""
    import resvg_py

    check_font(path)
    return bytes(resvg_py.svg_to_bytes(svg_string=svg, zoom=PNG_SCALE))


def check_font(path: Path) -> None:
    """See that words can be drawn in pixels.

    Raises:
        StorageError: this machine has no font for them.
    """
    import resvg_py

    sample = '<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9">{}</svg>'
    letter = sample.format(f'<text y="9" font-family="{FONT}">M</text>')
    if resvg_py.svg_to_bytes(svg_string=letter) == resvg_py.svg_to_bytes(svg_string=sample.format("")):
        raise StorageError(f"{path}: this computer has no font for a PNG; install fonts-dejavu-core, or give FILE.svg")


def ticks(low: float, high: float) -> list[float]:
    """Four to ten round values from `low` or below to `high` or above, 1, 2 or 5 times a power of 10 apart."""
    span = (high - low) or abs(high) or 1.0
    rough = span / 5
    power = 10.0 ** math.floor(math.log10(rough))
    distance = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough)
    first, last = math.floor(low / distance), max(math.ceil(high / distance), math.floor(low / distance) + 1)
    return [number * distance for number in range(first, last + 1)]


def axes(x: Scale, y: Scale, x_ticks: Sequence[float], y_ticks: Sequence[float]) -> Iterable[str]:
    """Elements of an SVG: a line with a value for each tick."""
    for value in y_ticks:
        yield line(x.first, y(value), x.last, y(value), GRID)
        yield label(LEFT - 8, y(value) + 4, f"{value:,g}", "end")
    for value in x_ticks:
        yield line(x(value), y.first, x(value), y.first + 5, INK)
        yield label(x(value), y.first + 20, f"{value:,.10g}", "middle")
    yield line(x.first, y.first, x.last, y.first, INK)


def line(left: float, top: float, right: float, bottom: float, colour: str, more: str = "") -> str:
    """An element of an SVG: a straight line between two points, in pixels."""
    return f'<line x1="{left:.1f}" y1="{top:.1f}" x2="{right:.1f}" y2="{bottom:.1f}" stroke="{colour}"{more}/>'


def label(left: float, top: float, text: str, anchor: str = "start", colour: str = INK, *, size: int = 13) -> str:
    """An element of an SVG: a line of text, at pixels from the left and the top."""
    return (
        f'<text x="{left:.1f}" y="{top:.1f}" text-anchor="{anchor}" fill="{colour}" font-size="{size}">'
        f"{escape(text)}</text>"
    )
