"""The loss curve of a model card: what trainers said in each global step, and what was measured on held-out text."""

import logging
import math
from collections.abc import Iterator
from pathlib import Path

from coordinator.release.facts import Curves
from downstream.report.chart import (
    BOTTOM,
    HEIGHT,
    INK,
    LEFT,
    RIGHT,
    TOP,
    WIDTH,
    Scale,
    as_png,
    axes,
    document,
    label,
    line,
    ticks,
)
from swarm.errors import StorageError

logger = logging.getLogger(__name__)

TRAINING, HELD_OUT = "#56b4e9", "#d55e00"  # Okabe & Ito (2008): colour-blind people can tell them apart
PNG, SVG = "loss.png", "loss.svg"  # names of the picture in a release
Points = list[tuple[float, float]]  # global step, loss in nats


def picture(curves: Curves, run_name: str) -> dict[str, bytes]:
    """The picture as one file by its name, or none while there is nothing to draw.

    It is a PNG, which every page shows, or an SVG where this computer has no font.
    """
    svg = draw(curves, run_name)
    if svg is None:
        return {}
    try:
        return {PNG: as_png(svg, Path(PNG))}
    except StorageError as error:
        logger.info("the loss curve is an SVG: %s", error)
        return {SVG: svg.encode()}


def draw(curves: Curves, run_name: str) -> str | None:
    """An SVG, or None while no loss is known."""
    training = [(one.step + 1.0, one.loss) for one in curves.steps if math.isfinite(one.loss)]
    held_out = [(float(one.step), one.loss) for one in curves.evaluations if math.isfinite(one.loss)]
    everything = training + held_out
    if not everything:
        return None
    unigram = next((one.unigram_loss for one in reversed(curves.evaluations) if one.unigram_loss is not None), None)
    losses = [loss for _, loss in everything] + ([] if unigram is None else [unigram])
    x_ticks, y_ticks = ticks(0.0, max(step for step, _ in everything)), ticks(min(losses), max(losses))
    x = Scale(x_ticks[0], x_ticks[-1], LEFT, WIDTH - RIGHT)
    y = Scale(y_ticks[0], y_ticks[-1], HEIGHT - BOTTOM, TOP)
    parts = [
        *axes(x, y, x_ticks, y_ticks),
        label((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 12, "global step", "middle"),
        label(LEFT, 24, f"{run_name}: loss in nats", size=15),
        *_line(training, x, y, TRAINING, "training, masked words and sentence order", 0),
        *_line(held_out, x, y, HELD_OUT, "held-out text, masked words", 1),
    ]
    if unigram is not None:
        parts += [
            line(x.first, y(unigram), x.last, y(unigram), INK, ' stroke-dasharray="6 4"'),
            label(WIDTH - RIGHT, y(unigram) - 6, f"a table of word frequencies: {unigram:.2f}", "end"),
        ]
    return document(parts)


def _line(points: Points, x: Scale, y: Scale, colour: str, name: str, row: int) -> Iterator[str]:
    if not points:
        return
    path = " ".join(f"{x(step):.1f},{y(loss):.1f}" for step, loss in points)
    yield f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>'
    if len(points) < 40:
        yield from (f'<circle cx="{x(step):.1f}" cy="{y(loss):.1f}" r="3" fill="{colour}"/>' for step, loss in points)
    yield label(WIDTH - RIGHT, TOP + 14 + 18 * row, name, "end", colour)
