"""Which size of model and which learning rate learn most in the same time: a grid of runs in one process.

    python -m benchmarks.learning.grid FOLDER [--sizes 128x2,256x2] [--rates 0.004,0.008] [--seconds 300] [--json FILE]

The folder's `train.jsonl` and `validation.jsonl` have a text in each line. Each cell of the grid has as many global
steps as `--seconds` of processor time hold with its model, measured before, and a schedule that ends with them: Muon,
warm-up in a twenty-fifth of the steps, 30 % masked, the same tokenizer, batch and order of the text for all. The rules
of `sahaj new` (`app/new/recipe.py`) are to agree with the best cells.
"""

import json
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import torch
import typer
from rich.console import Console
from rich.table import Table

from benchmarks.learning.learner import Curve, HeldOut, begun, learn, make_tokenizer, our_batches
from benchmarks.support import command
from swarm.errors import SahajError
from swarm.files import write_file
from swarm.run_file import RunFile, parse_run
from trainer.model import PretrainingModel

TRIED = 8  # global steps with which a model's speed is measured
EVALUATIONS = 10  # of a run
WARM_UP = 0.04  # of the steps
HEADS = 32  # wide each


@dataclass(frozen=True)
class Cell:
    """A run of the grid, and where it ended."""

    size: str
    learning_rate: float
    steps: int
    processor_seconds: float  # without evaluations
    loss: float  # held-out, in nats
    below_unigram: float  # nats
    curve: Curve


def main(
    corpus: Annotated[Path, typer.Argument(help="Folder with train.jsonl and validation.jsonl.", exists=True)],
    sizes: Annotated[str, typer.Option(help="Widths and layers, with commas.")] = "128x2,128x4,256x2,256x6",
    rates: Annotated[str, typer.Option(help="Peak learning rates, with commas.")] = "0.004,0.008,0.016",
    seconds: Annotated[float, typer.Option(min=1.0, help="Processor time of each run.")] = 300.0,
    batch: Annotated[int, typer.Option(min=1, help="Samples in a global step.")] = 320,
    max_length: Annotated[int, typer.Option(min=16, help="Tokens in a sample.")] = 64,
    vocabulary: Annotated[int, typer.Option(min=64, help="Tokens of the tokenizer.")] = 8000,
    language: Annotated[str, typer.Option(help="Of the text.")] = "bn",
    seed: Annotated[int, typer.Option(help="Of the weights, and of the order of the text.")] = 0,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the figures to this file.")] = None,
) -> None:
    """Train each cell, and print a table."""
    torch.set_num_threads(1)
    shapes = [shape_of(size) for size in sizes.split(",")]
    peaks = [rate_of(rate) for rate in rates.split(",")]
    with tempfile.TemporaryDirectory(prefix="sahaj-grid-") as scratch:
        content = {
            "name": "grid",
            "language": language,
            "tokenizer": {"vocab_size": vocabulary},
            "data": {
                "train": [{"path": f"{corpus.resolve()}/train.jsonl"}],
                "validation": [{"path": f"{corpus.resolve()}/validation.jsonl"}],
                "max_length": max_length,
                "max_ngram": 1,
                "masked_fraction": 0.3,
                "shuffle_buffer": 2000,
            },
            "averaging": {"target_batch_size": batch},
        }
        path = Path(scratch) / "run.yaml"
        make_tokenizer(parse_run(content, path))
        cells = []
        for size, shape in zip(sizes.split(","), shapes, strict=True):
            made = {**content, "model": {**shape, "seed": seed}}
            steps = steps_within(parse_run(made | {"optimizer": schedule(TRIED, peaks[0])}, path), seconds)
            for rate in peaks:
                cells.append(train(parse_run(made | {"optimizer": schedule(steps, rate)}, path), size.strip()))
                typer.echo(f"{cells[-1].size}, {rate:g}: {steps:,} steps, {cells[-1].loss:.3f} nats")
    if json_file is not None:
        best = min(cells, key=lambda cell: cell.loss)
        settings = {
            "seconds": seconds,
            "batch": batch,
            "max_length": max_length,
            "vocabulary": vocabulary,
            "seed": seed,
        }
        figures = {**settings, "best": {"size": best.size, "learning_rate": best.learning_rate}}
        write_file(json_file, json.dumps({**figures, "cells": [asdict(cell) for cell in cells]}, indent=2) + "\n")
    Console().print(table(cells))


def shape_of(size: str) -> dict[str, Any]:
    """The model section for a size such as `256x6`.

    Raises:
        SahajError: it is none, or its width is not a multiple of that of a head.
    """
    width, _, layers = size.strip().partition("x")
    if not (width.isdecimal() and layers.isdecimal() and int(width) and int(layers)) or int(width) % HEADS:
        raise SahajError(f"--sizes {size}: give width x layers, such as 256x6, the width a multiple of {HEADS}")
    wide = int(width)
    return {
        "hidden_size": wide,
        "num_hidden_layers": int(layers),
        "num_attention_heads": wide // HEADS,
        "intermediate_size": 4 * wide,
        "embedding_size": 128,
        "initializer_range": 0.08 * (128 / wide) ** 0.5,
    }


def rate_of(text: str) -> float:
    """A learning rate.

    Raises:
        SahajError: it is none.
    """
    try:
        rate = float(text)
    except ValueError:
        rate = 0.0
    if not 0.0 < rate < 1.0:
        raise SahajError(f"--rates {text}: give numbers between 0 and 1")
    return rate


def schedule(steps: int, rate: float) -> dict[str, Any]:
    """The optimizer section."""
    warm_up = min(max(1, round(WARM_UP * steps)), steps - 1)
    return {
        "name": "muon",
        "learning_rate": rate,
        "betas": [0.9, 0.98],
        "warmup_steps": warm_up,
        "total_steps": steps,
    }


def steps_within(run: RunFile, seconds: float) -> int:
    """Global steps that so much processor time holds, from a trial of the run's few steps.

    Raises:
        SahajError: there are hardly any.
    """
    taken = train(run, "").processor_seconds / run.optimizer.total_steps
    steps = int(seconds / taken)
    if steps < TRIED:
        raise SahajError(f"--seconds {seconds:g}: too few for {run.model.hidden_size} wide: a step takes {taken:.1f}")
    return steps


def train(run: RunFile, size: str) -> Cell:
    """All global steps of a run."""
    held_out = TimedHeldOut(run)
    model, batches = begun(run), our_batches(run, run.model.seed)
    next(batches)  # what starts up in the background is not the run's
    began, evaluated = time.process_time(), held_out.seconds
    steps = run.optimizer.total_steps
    curve = learn(run, model, batches, held_out, max(1, steps // EVALUATIONS))
    seconds = time.process_time() - began - (held_out.seconds - evaluated)
    loss = curve.end.loss
    return Cell(size, run.optimizer.learning_rate, steps, seconds, loss, held_out.unigram - loss, curve)


class TimedHeldOut(HeldOut):
    """Held-out text that knows what evaluations have cost."""

    seconds = 0.0  # of the processor

    def loss(self, model: PretrainingModel) -> float:
        """Of masked tokens, in nats."""
        began = time.process_time()
        found = super().loss(model)
        self.seconds += time.process_time() - began
        return found


def table(cells: list[Cell]) -> Table:
    """The figures for people: a row for each size, a column for each learning rate, the best in bold."""
    best = min(cells, key=lambda cell: cell.loss)
    rates = sorted({cell.learning_rate for cell in cells})
    shown = Table("size", "samples", *(f"{rate:g}" for rate in rates), title="Held-out loss, nats, by learning rate")
    for size in dict.fromkeys(cell.size for cell in cells):
        row = {cell.learning_rate: cell for cell in cells if cell.size == size}
        losses = [f"[bold]{row[rate].loss:.3f}[/]" if row[rate] is best else f"{row[rate].loss:.3f}" for rate in rates]
        shown.add_row(size, f"{next(iter(row.values())).curve.end.samples:,}", *losses)
    return shown


if __name__ == "__main__":
    command.run(main)
