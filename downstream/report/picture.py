"""Draws scores against the global step, as a small SVG of our own, or as PNG made from it."""

from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path

from downstream.report.chart import (
    BOTTOM,
    HEIGHT,
    LEFT,
    RIGHT,
    TOP,
    WIDTH,
    Scale,
    as_png,
    axes,
    check_font,
    document,
    label,
    line,
    ticks,
)
from downstream.report.output import check_file
from downstream.report.results import ModelResult, Results
from swarm.errors import StorageError
from swarm.files import write_file

# of Okabe & Ito (2008), which colour-blind people can tell apart: for runs, then for models that are of no step
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")


def check_picture(path: Path) -> None:
    """Refuse a kind of picture that we cannot draw, or a place where it cannot be written.

    Raises:
        StorageError: with the kinds that there are, or because there is no font for a PNG.
    """
    if path.suffix.lower() not in (".svg", ".png"):
        raise StorageError(f"{path}: unknown kind of picture {path.suffix!r}; give FILE.svg or FILE.png")
    check_file(path)
    if path.suffix.lower() == ".png":
        check_font(path)


def write_picture(results: Results, path: Path) -> None:
    """Write the picture of a comparison.

    Raises:
        StorageError: it cannot be written, or there is no font for a PNG.
    """
    svg = draw(results)
    write_file(path, svg if path.suffix.lower() == ".svg" else as_png(svg, path))


def draw(results: Results) -> str:
    """An SVG: checkpoints of each run as a line with the spread over seeds, models of no step as dashed levels."""
    score = results.scores[0]
    on_line = sorted((model for model in results.models if model.step is not None), key=lambda model: model.step or 0)
    runs = list(dict.fromkeys(model.run for model in on_line))
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
        *_levels(levels, score, y, COLOURS[max(1, len(runs)) % len(COLOURS) :] + COLOURS),
    ]
    for number, run in enumerate(runs):
        of_run = [model for model in on_line if model.run == run]
        parts += _curve(of_run, score, x, y, COLOURS[number % len(COLOURS)], named=len(runs) > 1)
    return document(parts)


def _ends(model: ModelResult, score: str) -> tuple[float, float]:
    found = model.test(score)
    return 100 * (found.mean - (found.deviation or 0)), 100 * (found.mean + (found.deviation or 0))


def _levels(models: Sequence[ModelResult], score: str, y: Scale, colours: Sequence[str]) -> Iterable[str]:
    for number, model in enumerate(models):
        colour = colours[number % len(colours)]
        at = y(100 * model.test(score).mean)
        yield line(LEFT, at, WIDTH - RIGHT, at, colour, ' stroke-width="1.5" stroke-dasharray="6 4"')
        yield label(LEFT + 4, at - 5, f"{model.name}, {model.how}", "start", colour)


def _curve(models: Sequence[ModelResult], score: str, x: Scale, y: Scale, colour: str, *, named: bool) -> Iterable[str]:
    points = [(x(float(model.step or 0)), y(100 * model.test(score).mean)) for model in models]
    if len(points) > 1:
        path = " ".join(f"{left:.1f},{top:.1f}" for left, top in points)
        yield f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>'
    for model, (left, top) in zip(models, points, strict=True):
        low, high = _ends(model, score)
        yield line(left, y(low), left, y(high), colour, ' stroke-width="1.5"')
        title = escape(f"{model.name}: {model.test(score)}")
        yield f'<circle cx="{left:.1f}" cy="{top:.1f}" r="4" fill="{colour}"><title>{title}</title></circle>'
    if named:
        left, top = points[-1]
        yield label(left, top - 10, models[-1].run or "no run", "end", colour)
