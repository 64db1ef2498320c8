"""The results of a comparison: as a table, as JSON, and as a picture of scores against the global step (SVG or PNG)."""

import json
import statistics
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from downstream.tasks.task import Scores
from swarm.display import charts
from swarm.files import write_file

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TABLE_SCORES = 2  # more make a table too wide for a terminal
FINE_TUNED, WITH_EXPERTS, FROM_SCRATCH, AS_IT_IS = (
    "fine-tuned",
    "fine-tuned with experts",
    "from random weights",
    "as it is",
)


@dataclass(frozen=True)
class SeedResult:
    """One model, fine-tuned with one seed (None: not fine-tuned here). Scores are from 0 to 1."""

    test: Scores
    validation: Scores | None = None
    seed: int | None = None
    learning_rate: float | None = None
    epochs: int | None = None
    best_epoch: int | None = None
    seconds: float | None = None


@dataclass(frozen=True)
class Spread:
    """Mean and standard deviation over the seeds, the latter of a sample (n - 1), None for a single seed."""

    mean: float
    deviation: float | None

    def __str__(self) -> str:
        return f"{100 * self.mean:.1f}" + ("" if self.deviation is None else f" ± {100 * self.deviation:.1f}")


@dataclass(frozen=True)
class ModelResult:
    """The scores of one model over its seeds."""

    name: str
    how: str
    step: int | None
    parameters: int
    truncated: dict[str, int]
    """By split the number of examples that were longer than the model reads."""
    runs: tuple[SeedResult, ...]
    run: str | None = None
    """The name of the run whose checkpoint it is."""

    def test(self, score: str) -> Spread:
        """A score on the test split."""
        return spread([run.test[score] for run in self.runs])

    def validation(self, score: str) -> Spread | None:
        """A score on the validation split, if the model was fine-tuned here."""
        values = [run.validation[score] for run in self.runs if run.validation is not None]
        return spread(values) if values else None


@dataclass(frozen=True)
class SplitSummary:
    """Where a split came from, and its size."""

    source: str
    examples: int
    left_out: tuple[str, ...]


@dataclass(frozen=True)
class Results:
    """All of a comparison; the first of `scores` is the one to compare by."""

    task: str
    scores: tuple[str, ...]
    labels: tuple[str, ...]
    data: dict[str, SplitSummary]
    test_examples_seen_in_training: int
    settings: dict[str, Any]
    software: dict[str, str]
    models: tuple[ModelResult, ...]


def spread(values: list[float]) -> Spread:
    """Mean and standard deviation of one value or more."""
    return Spread(statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else None)


def as_json(results: Results) -> str:
    """All that is known, with mean and standard deviation of each model's scores."""
    content = asdict(results)
    for model, written in zip(results.models, content["models"], strict=True):
        written["test"] = {score: asdict(model.test(score)) for score in results.scores}
        written["validation"] = {
            score: asdict(found) for score in results.scores if (found := model.validation(score)) is not None
        }
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


def table_of(results: Results) -> Table:
    """A row for each model, scores in percent; the first `TABLE_SCORES` of them, JSON has all."""
    test = results.data["test"]
    shown = results.scores[:TABLE_SCORES]
    main = shown[0]
    fine_tuned = any(model.how != AS_IT_IS for model in results.models)
    has_steps = any(model.step is not None for model in results.models)
    seeds = max(len(model.runs) for model in results.models)
    over = f", mean ± standard deviation of {seeds} seeds" if seeds > 1 else ""
    source = escape(Path(test.source).name)
    table = Table(title=f"{results.task}, {test.examples:,} test examples of {source}; percent{over}")
    table.add_column("model", overflow="fold", min_width=12)
    if has_steps:
        table.add_column("step", justify="right", no_wrap=True)
    if fine_tuned:
        table.add_column(f"validation {main}", justify="right")
    for score in shown:
        table.add_column(f"test {score}", justify="right", style="bold" if score == main else "")
    for model in results.models:
        step = ["" if model.step is None else f"{model.step:,}"] if has_steps else []
        validation = [str(model.validation(main) or "")] if fine_tuned else []
        table.add_row(
            escape(f"{model.name}, {model.how}"), *step, *validation, *(str(model.test(score)) for score in shown)
        )
    return table


def publish(results: Results, console: Console, json_file: Path | None = None, picture: Path | None = None) -> None:
    """Print the table and write the files that are asked for; nothing while no model is measured.

    Raises:
        StorageError: a file cannot be written.
    """
    if not results.models:
        return
    console.print(table_of(results))
    if json_file is not None:
        write_file(json_file, as_json(results))
    if picture is not None:
        write_picture(results, picture)


def write_picture(results: Results, path: Path) -> None:
    """Write the picture of a comparison.

    Raises:
        StorageError: it cannot be written.
    """
    write_file(path, charts.draw(partial(paint, results), path.suffix.lower().removeprefix(".")))


def paint(results: Results, figure: "Figure") -> None:
    """Draw the checkpoints of each run as a line with the spread over seeds, models of no step as dashed levels."""
    axes, score = figure.subplots(), results.scores[0]
    hows = {model.how for model in results.models if model.step is not None}

    def line_of(model: ModelResult) -> str:
        run = model.run or "no run"
        return f"{run}, {model.how}" if len(hows) > 1 else run

    with_step = [(model.step, line_of(model), model.test(score)) for model in results.models if model.step is not None]
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
            label=run,
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
