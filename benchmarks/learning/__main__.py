"""Samples and seconds to the held-out loss at which the stock recipe ends, ours beside it, in one run.

    python -m benchmarks.learning [--corpus FILE] [--seeds 3] [--json FILE]

Texts: the demo's, with the model of `runs/demo.yaml`, and a corpus of one's own (JSONL), with that of
`runs/bengali-hour.yaml`. Both sides have the same text, tokenizer, size of model, samples in a global step, and
held-out samples, 15 % of whose tokens are masked.

- *stock* is what sahajBERT did: LAMB, ALBERT's initial weights, 15 % of the tokens masked, one by one, its order of the
  data (`benchmarks.step.stock_samples`), the loss of the whole vocabulary at every position, float32. Its peak learning
  rate is `STOCK_RATE`, for steps as small as these; warm-up and decay span its run as they did there.
- *ours* is the run file as it stands, begun as a coordinator begins it, with a quarter of the steps.

Samples are computed by one process without overlap. The stock curve is computed with the projection at masked
positions alone, which gives the same loss; what a stock sample costs is measured with the stock step
(`benchmarks.step`), in turns with ours.

What counts: a quarter of the samples at most, and 16 times fewer seconds.
"""

import json
import statistics
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import torch
import typer
from rich.console import Console
from rich.table import Table
from transformers import DataCollatorForLanguageModeling

from app.demo.corpus import prepare_corpus
from app.demo.demo import DEFAULT_RUN
from benchmarks import step
from benchmarks.learning.learner import MICRO_BATCH, Curve, HeldOut, begun, learn, make_tokenizer, our_batches
from benchmarks.support import command
from swarm.files import write_file
from swarm.run_file import RunFile, load_run, parse_run
from tokenizer.loading import load_tokenizer
from trainer.data import Batch
from trainer.models.albert import AlbertPretraining, albert_config

FEWER = 4  # ours has so many times fewer steps
TURNS = 3  # of measuring speed
EVALUATIONS = 50  # of a run of ours; stock is evaluated as often
HOUR = DEFAULT_RUN.with_name("bengali-hour.yaml")
STOCK: dict[str, dict[str, Any]] = {
    "model": {"initializer_range": 0.02},
    "optimizer": {"name": "lamb", "betas": (0.9, 0.999), "weight_decay": 0.01},
    "data": {"masked_fraction": 0.15, "max_ngram": 1, "short_sample_probability": 0.0},
}
STOCK_RATE = 0.02  # after 46,000 samples of the demo's text it was at 5.51 nats, with 0.01 at 5.66, with 0.04 at 5.74
WARM_UP = 0.04  # of the steps: 5,000 of 125,000


@dataclass(frozen=True)
class Text:
    """What is compared on, and with what model."""

    run: Path
    corpus: Path | None
    stock_steps: int


def main(
    corpus: Annotated[Path | None, typer.Option(help="Text for the model of runs/bengali-hour.yaml, as JSONL.")] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Runs of each side; ratios are medians.")] = 3,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the figures to this file.")] = None,
) -> None:
    """Measure, and print a table."""
    texts = {"demo": Text(DEFAULT_RUN, None, stock_steps=360)}
    if corpus is not None:
        texts["bengali"] = Text(HOUR, corpus, stock_steps=400)
    figures: dict[str, dict[str, Any]] = {}
    for name, text in texts.items():
        with tempfile.TemporaryDirectory(prefix="sahaj-learning-") as folder:
            figures[name] = compare(name, text, Path(folder), seeds)
    if json_file is not None:
        write_file(json_file, json.dumps(figures, indent=2) + "\n")
    Console().print(table(figures))


def compare(name: str, text: Text, folder: Path, seeds: int) -> dict[str, Any]:
    """The figures of one text."""
    ours = prepared(text, folder)
    stock = stock_of(ours, text.stock_steps)
    ours = with_steps(ours, text.stock_steps // FEWER)
    held_out = HeldOut(stock)
    console = Console(stderr=True)

    def curve(side: str, run: RunFile, seed: int) -> Curve:
        run = with_changes(run, {"model": {"seed": seed}})
        make, batches = (stock_model, stock_batches) if side == "stock" else (begun, our_batches)
        every = max(1, run.optimizer.total_steps // EVALUATIONS)
        found = learn(run, make(run), batches(run, seed), held_out, every)
        console.print(f"{name}, {side}: {found.end.loss:.3f} nats after {found.end.samples:,} samples")
        return found

    curves = [(curve("stock", stock, seed), curve("ours", ours, seed)) for seed in range(seeds)]
    speeds = [
        tuple(step.measure(side, name, run) for side, run in (("stock", stock), ("ours", ours))) for _ in range(TURNS)
    ]
    stock_speed, our_speed = (
        statistics.median(one.samples_per_second for one in side) for side in zip(*speeds, strict=True)
    )
    samples, seconds = [], []
    for theirs, mine in curves:
        begins_lower = mine.points[0].loss <= theirs.end.loss
        needed = float(ours.averaging.target_batch_size) if begins_lower else mine.samples_to(theirs.end.loss)
        if needed is None:  # not in a quarter of the samples
            continue
        samples.append(theirs.end.samples / needed)
        seconds.append(
            _seconds(stock, theirs, theirs.end.samples, stock_speed) / _seconds(ours, mine, needed, our_speed)
        )
    reached = len(samples) == seeds
    return {
        "samples_ratio": round(statistics.median(samples), 2) if reached else None,
        "seconds_ratio": round(statistics.median(seconds), 2) if reached else None,
        "below_unigram": round(held_out.unigram - statistics.median(mine.end.loss for _, mine in curves), 3),
        "stock_below_unigram": round(held_out.unigram - statistics.median(theirs.end.loss for theirs, _ in curves), 3),
        "samples_ratios": [round(one, 2) for one in samples],
        "seconds_ratios": [round(one, 2) for one in seconds],
        "stock_samples_per_second": round(stock_speed, 1),
        "our_samples_per_second": round(our_speed, 1),
        "curves": [{"stock": asdict(theirs), "ours": asdict(mine)} for theirs, mine in curves],
    }


def _seconds(run: RunFile, curve: Curve, samples: float, speed: float) -> float:
    """That so many samples take, global steps included."""
    return samples / speed + samples / run.averaging.target_batch_size * curve.optimizer_seconds


def prepared(text: Text, folder: Path) -> RunFile:
    """Our run, with its text and tokenizer in a folder."""
    run = load_run(text.run)
    prepare_corpus(run, text.corpus, folder)
    data = {"train": [{"path": "train.jsonl"}], "validation": [{"path": "validation.jsonl"}]}
    run = with_changes(run, {"tokenizer": {"path": "tokenizer"}, "data": data}, folder / "run.yaml")
    make_tokenizer(run)
    return run


def stock_of(run: RunFile, steps: int) -> RunFile:
    """The same run by the stock recipe."""
    schedule = {"learning_rate": STOCK_RATE, "warmup_steps": max(1, round(WARM_UP * steps)), "total_steps": steps}
    return with_changes(run, STOCK | {"optimizer": STOCK["optimizer"] | schedule})


def with_steps(run: RunFile, steps: int) -> RunFile:
    """A shorter run, with a warm-up of the same part of it."""
    warmup = max(1, run.optimizer.warmup_steps * steps // run.optimizer.total_steps)
    return with_changes(run, {"optimizer": {"warmup_steps": warmup, "total_steps": steps}})


def with_changes(run: RunFile, changes: dict[str, dict[str, Any]], path: Path | None = None) -> RunFile:
    """A run with other values in some of its sections, in the same folder if no other one is named."""
    content = run.model_dump()
    for section, values in changes.items():
        content[section] |= values
    return parse_run(content, path or run.folder / "run.yaml")


def stock_model(run: RunFile) -> AlbertPretraining:
    """With the initial weights of Transformers."""
    torch.manual_seed(run.model.seed)
    return AlbertPretraining(albert_config(run, load_tokenizer(run)))


def stock_batches(run: RunFile, seed: int) -> Iterator[Batch]:
    """The stock recipe's samples, padded and masked as it does."""
    tokenizer = load_tokenizer(run)
    collate = DataCollatorForLanguageModeling(
        tokenizer, mlm_probability=run.data.masked_fraction, pad_to_multiple_of=run.data.max_length, seed=seed
    )
    samples = step.stock_samples(run, tokenizer, seed)
    while True:
        made = collate(list(islice(samples, MICRO_BATCH)))
        labels = made["labels"].reshape(-1)
        positions = torch.nonzero(labels != -100).squeeze(1)
        yield Batch(
            input_ids=made["input_ids"],
            token_type_ids=made["token_type_ids"],
            attention_mask=made["attention_mask"],
            sentence_order_label=made["sentence_order_label"],
            masked_positions=positions,
            masked_labels=labels[positions],
        )


def table(figures: dict[str, dict[str, Any]]) -> Table:
    """The figures for people."""
    columns = ("samples_ratio", "seconds_ratio", "below_unigram", "stock_below_unigram")
    shown = Table("", *columns, title="To the held-out loss at which the stock recipe ends: how many times fewer")
    for name, one in figures.items():
        shown.add_row(name, *(str(one[column]) for column in columns))
    return shown


if __name__ == "__main__":
    command.run(main)
