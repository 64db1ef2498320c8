"""Draws scores against the global step, as a small SVG of our own, or as PNG made from it."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from downstream.output import check_file
from downstream.results import ModelResult, Results
from swarm.durable import write_file
from swarm.errors import StorageError

WIDTH, HEIGHT = 760, 440
LEFT, RIGHT, TOP, BOTTOM = 64, 40, 56, 56  # around the field, in pixels
PNG_SCALE = 2  # pixels of a PNG for each of the SVG, for today's screens
INK, GRID, LINE = "#222", "#ddd", "#0072b2"
# for models that are of no step; colours of Okabe & Ito (2008), which colour-blind people can tell apart
OTHERS = ("#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
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


def check_picture(path: Path) -> None:
    """Refuse a kind of picture that we cannot draw, or a place where it cannot be written.

    Raises:
        StorageError: with the kinds that there are.
    """
    if path.suffix.lower() not in (".svg", ".png"):
        raise StorageError(f"{path}: unknown kind of picture {path.suffix!r}; give FILE.svg or FILE.png")
    check_file(path)


def write_picture(results: Results, path: Path) -> None:
    """Write the picture of a comparison.

    Raises:
        StorageError: it cannot be written, or there is no font for a PNG.
    """
    svg = draw(results)
    write_file(path, svg if path.suffix.lower() == ".svg" else as_png(svg, path))


def as_png(svg: str, path: Path) -> bytes:
    """The picture in pixels.

    Raises:
        StorageError: this machine has no font for the words in it.
    """
    import resvg_py

    sample = '<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9">{}</svg>'
    letter = sample.format(f'<text y="9" font-family="{FONT}">M</text>')
    if resvg_py.svg_to_bytes(svg_string=letter) == resvg_py.svg_to_bytes(svg_string=sample.format("")):
        raise StorageError(f"{path}: this computer has no font for a PNG; install fonts-dejavu-core, or give FILE.svg")
    return bytes(resvg_py.svg_to_bytes(svg_string=svg, zoom=PNG_SCALE))


def draw(results: Results) -> str:
    """An SVG: models with a global step as a line with the spread over seeds, the others as dashed levels."""
    score = results.scores[0]
    on_line = sorted((model for model in results.models if model.step is not None), key=lambda model: model.step or 0)
    levels = [model for model in results.models if model.step is None]
    ends = [end for model in results.models for end in _ends(model, score)]
    y_ticks = ticks(min(ends), max(ends))
    steps = [float(model.step or 0) for model in on_line] or [0.0]
    x_ticks = ticks(0.0, max(steps))
    x = Scale(x_ticks[0], x_ticks[-1], LEFT, WIDTH - RIGHT)
    y = Scale(y_ticks[0], y_ticks[-1], HEIGHT - BOTTOM, TOP)
    parts = [
        *axes(x, y, x_ticks, y_ticks),
        label((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 12, "global step", "middle"),
        label(LEFT, 24, f"{results.task}: test {score} in percent, {Path(results.data['test'].source).name}", size=15),
        *_levels(levels, score, y),
        *_curve(on_line, score, x, y),
    ]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}" '
        f'font-family="{FONT}" font-size="13" fill="{INK}">\n<rect width="100%" height="100%" fill="white"/>\n'
        + "\n".join(parts)
        + "\n</svg>\n"
    )


def ticks(low: float, high: float) -> list[float]:
    """Four to ten round values from `low` or below to `high` or above, 1, 2 or 5 times a power of 10 apart."""
    span = (high - low) or abs(high) or 1.0
    rough = span / 5
    power = 10.0 ** math.floor(math.log10(rough))
    distance = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough)
    first, last = math.floor(low / distance), max(math.ceil(high / distance), math.floor(low / distance) + 1)
    return [number * distance for number in range(first, last + 1)]


def _ends(model: ModelResult, score: str) -> tuple[float, float]:
    found = model.test(score)
    return 100 * (found.mean - (found.deviation or 0)), 100 * (found.mean + (found.deviation or 0))


def axes(x: Scale, y: Scale, x_ticks: Sequence[float], y_ticks: Sequence[float]) -> Iterable[str]:
    """Elements of an SVG: a line with a value for each tick."""
    for value in y_ticks:
        yield _line(x.first, y(value), x.last, y(value), GRID)
        yield label(LEFT - 8, y(value) + 4, f"{value:,g}", "end")
    for value in x_ticks:
        yield _line(x(value), y.first, x(value), y.first + 5, INK)
        yield label(x(value), y.first + 20, f"{value:,.10g}", "middle")
    yield _line(x.first, y.first, x.last, y.first, INK)


def _levels(models: Sequence[ModelResult], score: str, y: Scale) -> Iterable[str]:
    for number, model in enumerate(models):
        colour = OTHERS[number % len(OTHERS)]
        at = y(100 * model.test(score).mean)
        yield _line(LEFT, at, WIDTH - RIGHT, at, colour, ' stroke-width="1.5" stroke-dasharray="6 4"')
        yield label(LEFT + 4, at - 5, f"{model.name}, {model.how}", "start", colour)


def _curve(models: Sequence[ModelResult], score: str, x: Scale, y: Scale) -> Iterable[str]:
    points = [(x(float(model.step or 0)), y(100 * model.test(score).mean)) for model in models]
    if len(points) > 1:
        path = " ".join(f"{left:.1f},{top:.1f}" for left, top in points)
        yield f'<polyline points="{path}" fill="none" stroke="{LINE}" stroke-width="2"/>'
    for model, (left, top) in zip(models, points, strict=True):
        low, high = _ends(model, score)
        yield _line(left, y(low), left, y(high), LINE, ' stroke-width="1.5"')
        title = escape(f"{model.name}: {model.test(score)}")
        yield f'<circle cx="{left:.1f}" cy="{top:.1f}" r="4" fill="{LINE}"><title>{title}</title></circle>'


def _line(left: float, top: float, right: float, bottom: float, colour: str, more: str = "") -> str:
    return f'<line x1="{left:.1f}" y1="{top:.1f}" x2="{right:.1f}" y2="{bottom:.1f}" stroke="{colour}"{more}/>'


def label(left: float, top: float, text: str, anchor: str = "start", colour: str = INK, *, size: int = 13) -> str:
    """An element of an SVG: a line of text, at pixels from the left and the top."""
    return (
        f'<text x="{left:.1f}" y="{top:.1f}" text-anchor="{anchor}" fill="{colour}" font-size="{size}">'
        f"{escape(text)}</text>"
    )
