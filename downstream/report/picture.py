"""Draws scores against the global step, as SVG or PNG."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from downstream.report.output import check_file
from downstream.report.results import Results
from swarm import charts
from swarm.errors import StorageError
from swarm.files import write_file

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def check_picture(path: Path) -> None:
    """Refuse a kind of picture that cannot be drawn, or a place where it cannot be written.

    Raises:
        StorageError: with the kinds that there are.
    """
    if path.suffix.lower() not in (".svg", ".png"):
        raise StorageError(f"{path}: unknown kind of picture {path.suffix!r}; give FILE.svg or FILE.png")
    check_file(path)


def write_picture(results: Results, path: Path) -> None:
    """Write the picture of a comparison.

    Raises:
        StorageError: it cannot be written.
    """
    write_file(path, charts.draw(partial(paint, results), path.suffix.lower().removeprefix(".")))


def paint(results: Results, figure: "Figure") -> None:
    """Draw the checkpoints of each run as a line with the spread over seeds, models of no step as dashed levels."""
    axes, score = figure.subplots(), results.scores[0]
    with_step = [(model.step, model.run, model.test(score)) for model in results.models if model.step is not None]
    with_step.sort(key=lambda one: one[0])
    runs = list(dict.fromkeys(run for _, run, _ in with_step))
    levels = [model for model in results.models if model.step is None]
    for colour, run in zip(charts.COLOURS * len(runs), runs, strict=False):
        of_run = [(step, found) for step, its_run, found in with_step if its_run == run]
        axes.errorbar(
            [step for step, _ in of_run],
            [100 * found.mean for _, found in of_run],
            yerr=[100 * (found.deviation or 0.0) for _, found in of_run],
            color=colour,
            linewidth=2,
            elinewidth=1.5,
            marker="o",
            label=run or "no run",
        )
    for number, model in enumerate(levels, start=max(1, len(runs))):
        colour, mean = charts.COLOURS[number % len(charts.COLOURS)], 100 * model.test(score).mean
        axes.axhline(
            mean, color=colour, linewidth=1.5, dashes=charts.DASHES, label=f"{model.name}, {model.how}: {mean:.1f}"
        )
    axes.set_title(f"{results.task}: test {score} in percent, {Path(results.data['test'].source).name}")
    axes.set_xlabel("global step")
    axes.set_xlim(left=0)
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.xaxis.set_visible(bool(runs))
    if levels or len(runs) > 1:
        axes.legend()
