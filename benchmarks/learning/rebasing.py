"""What the rounding of moments at snapshot steps costs in learning and in time.

    python -m benchmarks.learning.rebasing CORPUS [--steps 1000] [--orders 3] [--json FILE]

CORPUS is JSONL with a `text` in each line; one document of twenty is kept to measure on. A small ALBERT learns with
LAMB and with AdamW, in several orders of the documents, and its moments are rounded to 16 bits
(`averaging/log/moment_codec.py`) after every k-th step, or never. What another order of the documents changes is
chance; rounding should change less.
"""

import itertools
import json
import statistics
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import torch
import typer
from rich.console import Console
from rich.progress import track
from rich.table import Table

from averaging.log.moment_codec import rebase
from averaging.log.snapshot import write_snapshot
from averaging.log.state import Layout, State
from averaging.optimizers.state_step import StateOptimizer, initial_state
from averaging.reduce.gradient_vector import GradientVector
from benchmarks.support import command
from corpus.documents import open_documents
from swarm.files import write_file
from swarm.run_file import RunFile, parse_run
from tokenizer.loading import load_tokenizer, save_tokenizer
from tokenizer.training import train_tokenizer
from trainer.data import Batch, BatchPrefetcher
from trainer.model import PretrainingModel, build_model

HELD_OUT = 20  # one document of so many
SAMPLES = 32  # in a step
MEASURED = 40  # batches of held-out text
PARAMETERS = 18_000_000  # of the state that is timed: ALBERT-large
EVERY = (None, 1, 10, 100)  # global steps between two roundings
# a beta of 0.999 lets a second moment move by a thousandth in a step, a quarter of what 16 bits can tell apart
OPTIMIZERS = {
    "LAMB": {"name": "lamb", "learning_rate": 5.0e-3},
    "AdamW": {"name": "adamw", "learning_rate": 2.0e-3},
}
SETTINGS = {
    "name": "rebasing",
    "language": "bn",
    "model": {
        "hidden_size": 64,
        "embedding_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 256,
        "initializer_range": 0.08,
    },
    "tokenizer": {"vocab_size": 2000, "path": "tokenizer"},
    "data": {
        "train": [{"path": "train.jsonl"}],
        "validation": [{"path": "validation.jsonl"}],
        "max_length": 32,
        "max_ngram": 1,
        "shuffle_buffer": 2000,
    },
}


@dataclass(frozen=True)
class Trial:
    """One course of training, and the loss in nats of predicting held-out tokens at its end."""

    optimizer: str
    order: int  # of the documents
    every: int | None  # global steps between two roundings; None: never
    loss: float


def main(
    corpus: Annotated[Path, typer.Argument(help="JSONL with a text in each line.", exists=True, dir_okay=False)],
    steps: Annotated[int, typer.Option(min=10, help="Global steps of each course.")] = 1000,
    orders: Annotated[int, typer.Option(min=2, help="Of the documents, in each of which all are compared.")] = 3,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the figures to this file.")] = None,
) -> None:
    """Train with each optimizer and interval, time a large state, and print both."""
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        runs = {name: prepare(Path(folder), corpus, steps, name) for name in OPTIMIZERS}
        courses = list(itertools.product(runs, range(orders), EVERY))
        trials = [
            Trial(name, order, every, train(runs[name], order, every, steps))
            for name, order, every in track(courses, "courses", transient=True)
        ]
    seconds = time_a_state()
    if json_file is not None:
        figures = {"trials": [asdict(one) for one in trials], "seconds": seconds}
        write_file(json_file, json.dumps(figures, indent=2) + "\n")
    Console().print(table(trials, steps))
    times = ", ".join(f"{name} {one:.2f} s" for name, one in seconds.items())
    typer.echo(f"{PARAMETERS:,} parameters on one core: {times}")


def prepare(folder: Path, corpus: Path, steps: int, optimizer: str) -> RunFile:
    """A run file, the two halves of the text, and a tokenizer."""
    schedule = {"warmup_steps": steps // 10, "total_steps": steps + 1}
    run = parse_run({**SETTINGS, "optimizer": OPTIMIZERS[optimizer] | schedule}, folder / "run.yaml")
    if not (folder / "train.jsonl").exists():
        lines = corpus.read_bytes().splitlines(keepends=True)
        (folder / "validation.jsonl").write_bytes(b"".join(lines[::HELD_OUT]))
        del lines[::HELD_OUT]
        (folder / "train.jsonl").write_bytes(b"".join(lines))
        documents = open_documents(run, run.data.train, seed=0, repeat=False)
        save_tokenizer(train_tokenizer(run, documents), run.resolve(run.tokenizer.path))
    return run


def train(run: RunFile, order: int, every: int | None, steps: int) -> float:
    """The loss at the end of a course that begins with the same parameters as all others."""
    model = build_model(run, load_tokenizer(run))
    layout = Layout.of(model.named_parameters(), has_muon=False)
    parameters = list(model.parameters())
    gradient, optimizer = GradientVector(parameters), StateOptimizer(layout, run.optimizer)
    state = initial_state(layout, parameters)
    for batch in batches(run, steps, order, of="train"):
        model.zero_grad()
        model(batch).loss.backward()
        state = optimizer.step(state, gradient.times(1))
        if every is not None and state.step % every == 0:
            rebase(state)
        with torch.no_grad():
            for own, newest in zip(parameters, layout.views(state.parameters), strict=True):
                own.copy_(newest)
    return held_out_loss(model, run)


def batches(run: RunFile, count: int, seed: int, of: str) -> Iterator[Batch]:
    """The same ones for the same seed."""
    documents = open_documents(run, getattr(run.data, of), seed=seed, repeat=True)
    with BatchPrefetcher(documents, load_tokenizer(run), run, batch_size=SAMPLES, seed=seed) as feed:
        for _ in range(count):
            yield feed.next()


@torch.no_grad()
def held_out_loss(model: PretrainingModel, run: RunFile) -> float:
    """Nats a token."""
    model.eval()
    measured = list(batches(run, MEASURED, seed=0, of="validation"))
    total = sum(float(model(batch).masked_lm_loss) * batch.masked for batch in measured)
    return total / sum(batch.masked for batch in measured)


def time_a_state() -> dict[str, float]:
    """Seconds that a snapshot step takes longer than another."""
    draw = torch.Generator().manual_seed(0)
    parameters, mean, square = (torch.randn(PARAMETERS, generator=draw) for _ in range(3))
    state = State(100, 100, parameters, (mean, square.square_()))
    began = time.process_time()
    rebase(state)
    rebased = time.process_time()
    write_snapshot(state, "run", "", lambda digest, content: None)
    return {"rebase": rebased - began, "cut into chunks and hash": time.process_time() - rebased}


def table(trials: list[Trial], steps: int) -> Table:
    """Losses for people: means over the orders, and standard deviations."""
    columns = ("optimizer", "moments rounded", "held-out loss, nats", "more than never, in the same order")
    shown = Table(*columns, title=f"After {steps:,} steps")
    never = {(one.optimizer, one.order): one.loss for one in trials if one.every is None}
    for (optimizer, every), found in itertools.groupby(
        sorted(trials, key=lambda one: (one.optimizer, one.every or 0)), key=lambda one: (one.optimizer, one.every)
    ):
        chosen = list(found)
        more = [one.loss - never[optimizer, one.order] for one in chosen]
        losses = [one.loss for one in chosen]
        shown.add_row(
            optimizer,
            "never" if every is None else f"every {every} steps",
            f"{statistics.mean(losses):.4f} ± {statistics.stdev(losses):.4f}",
            "" if every is None else f"{statistics.mean(more):+.4f} ± {statistics.stdev(more):.4f}",
        )
    return shown


if __name__ == "__main__":
    command.run(main)
