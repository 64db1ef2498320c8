"""The loss curve of a model card: training loss by global step, and the loss on held-out text."""

import math
from functools import partial
from typing import TYPE_CHECKING

from coordinator.release.facts import Record
from swarm.display import charts

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PNG = "loss.png"  # name of the picture in a release
FEW = 40  # points that are marked one by one


def picture(record: Record, run_name: str) -> dict[str, bytes]:
    """The picture as one file by its name, or none while no loss is known. A PNG: every page shows it."""
    losses = [one.loss for one in record.steps] + [one.loss for one in record.evaluations]
    if not any(map(math.isfinite, losses)):
        return {}
    return {PNG: charts.draw(partial(paint, record, run_name), "png")}


def paint(record: Record, run_name: str, figure: "Figure") -> None:
    """Draw the curves that are known."""
    axes = figure.subplots()
    training = [(one.step + 1, one.loss) for one in record.steps if math.isfinite(one.loss)]
    held_out = [(one.step, one.loss) for one in record.evaluations if math.isfinite(one.loss)]
    for points, colour, name in (
        (training, charts.SKY, "training, masked words"),
        (held_out, charts.VERMILION, "held-out text, masked words"),
    ):
        if points:
            marker = "o" if len(points) < FEW else ""
            axes.plot(*zip(*points, strict=True), color=colour, linewidth=2, marker=marker, markersize=5, label=name)
    unigram = next((one.unigram_loss for one in reversed(record.evaluations) if one.unigram_loss is not None), None)
    if unigram is not None:
        name = f"a table of word frequencies: {unigram:.2f}"
        axes.axhline(unigram, color=charts.INK, linewidth=1, dashes=charts.DASHES, label=name)
    axes.set_title(f"{run_name}: loss in nats")
    axes.set_xlabel("global step")
    axes.set_xlim(left=0)
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.legend()
