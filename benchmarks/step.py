"""Samples per second and peak memory of one trainer's step, ours beside the stock recipe, in one run.

    python -m benchmarks.step [--json FILE] [--repeats N]

A step is data, forward, backward and `zero_grad`; there is no optimizer on either side. Both sides have
the same text, tokenizer, model shape, micro-batch and number of threads, and each runs in a process of
its own, in turns, because a machine's speed drifts.

- *stock* is what Transformers' examples and the earlier public runs do: `AlbertForPreTraining` with
  scores of the whole vocabulary at every position, float32, sentences tokenized one by one, samples of
  whole sentences, `DataCollatorForLanguageModeling`, everything padded to `max_length`, data made
  between the steps.
- *ours* is `BatchPrefetcher`, `AlbertPretraining` and the number format that a trial picks.
"""

import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from pydoc_data.topics import topics
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from benchmarks.support import command
from swarm.files import write_file
from swarm.run_file import RunFile, load_run, parse_run

# torch and transformers are imported where they are used: a child's peak memory is never below the parent's
if TYPE_CHECKING:
    from transformers import AlbertConfig, PreTrainedTokenizerFast

MICRO_BATCH = 16  # samples in a step, on both sides
SECONDS = 5.0  # that are measured at least, after the warm-up
STEPS = 2  # that are measured at least
WARM_UP_STEPS = 2
SIDES = ("ours", "stock")
ROOT = Path(__file__).resolve().parent.parent
ALBERT_BASE = {  # Lan et al. 2020, table 1, with samples short enough for a processor
    "model": {
        "hidden_size": 768,
        "num_hidden_layers": 12,
        "num_attention_heads": 12,
        "intermediate_size": 3072,
        "embedding_size": 128,
    },
    "tokenizer": {"vocab_size": 32_000},
    "data": {"max_length": 128},
}


@dataclass(frozen=True)
class Measured:
    """Speed and peak memory of one side."""

    samples_per_second: float
    tokens_per_second: float  # padding not counted
    memory_mb: float  # the most that the process ever held, libraries included
    dtype: str


def main(
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the figures to this file.")] = None,
    repeats: Annotated[int, typer.Option(min=1, help="Runs of each side; the median counts.")] = 3,
    text: Annotated[Path | None, typer.Option(help="Other text than Python's own documentation.")] = None,
) -> None:
    """Measure both settings and print a table."""
    figures = {}
    with tempfile.TemporaryDirectory() as folder:
        for setting, run in settings(Path(folder), text).items():
            _in_a_process("train_the_tokenizer", setting, run)
            measured: dict[str, list[Measured]] = {side: [] for side in SIDES}
            for _ in range(repeats):
                for side in SIDES:
                    measured[side].append(measure(side, setting, run))
            figures[setting] = summary(measured)
    if json_file is not None:
        write_file(json_file, json.dumps(figures, indent=2) + "\n")
    Console().print(table(figures))


def settings(folder: Path, text: Path | None) -> dict[str, RunFile]:
    """The model of the demo, and ALBERT base; both read the same text."""
    if text is None:
        text = folder / "text.jsonl"
        text.write_text("".join(json.dumps({"text": topics[topic]}) + "\n" for topic in sorted(topics)))
    demo = load_run(ROOT / "runs" / "demo.yaml").model_dump(mode="json")
    shared = {"name": "step", "language": "en"}
    data = {"train": [{"path": str(text.absolute())}]}
    shapes = {
        "demo": {key: demo[key] for key in ("model", "tokenizer")}
        | {"data": {"max_length": demo["data"]["max_length"]}},
        "albert_base": ALBERT_BASE,
    }
    return {
        setting: parse_run(
            {
                **shared,
                "model": shape["model"],
                "tokenizer": {"vocab_size": shape["tokenizer"]["vocab_size"], "path": f"{setting}-tokenizer"},
                "data": data | shape["data"],
            },
            folder / f"{setting}.yaml",
        )
        for setting, shape in shapes.items()
    }


def summary(measured: dict[str, list[Measured]]) -> dict[str, Any]:
    """Medians of the repeats; the ratios are of the medians."""

    def median(side: str, figure: str) -> float:
        return statistics.median(getattr(one, figure) for one in measured[side])

    result: dict[str, Any] = {}
    for side in SIDES:
        result[side] = round(median(side, "samples_per_second"), 2)
    result["ratio"] = round(median("ours", "samples_per_second") / median("stock", "samples_per_second"), 2)
    for side in SIDES:
        result[f"{side}_memory_mb"] = round(median(side, "memory_mb"))
    result["memory_ratio"] = round(median("ours", "memory_mb") / median("stock", "memory_mb"), 2)
    result["tokens_ratio"] = round(median("ours", "tokens_per_second") / median("stock", "tokens_per_second"), 2)
    for side in SIDES:
        result[f"{side}_repeats"] = [round(one.samples_per_second, 2) for one in measured[side]]
    result["dtype"] = measured["ours"][-1].dtype
    return result


def table(figures: dict[str, dict[str, Any]]) -> Table:
    """The figures for people."""
    shown = Table(title=f"A step of {MICRO_BATCH} samples, data included, no optimizer, {os.cpu_count()} cores")
    for column in ("", "ours", "stock", "ratio", "ours, peak MB", "stock, peak MB", "ours computes in"):
        shown.add_column(column, justify="right" if column else "left")
    for setting, row in figures.items():
        speeds = [f"{row[side]:.1f} samples/s" for side in SIDES]
        memory = [f"{row[f'{side}_memory_mb']:,}" for side in SIDES]
        shown.add_row(setting, *speeds, f"{row['ratio']:.2f}", *memory, row["dtype"])
    return shown


def measure(side: str, setting: str, run: RunFile) -> Measured:
    """One side, in a process of its own. The tokenizer of the run must be there."""
    return Measured(**json.loads(_in_a_process(f"measure_{side}", setting, run)))


def _in_a_process(task: str, setting: str, run: RunFile) -> str:
    """The last line that a function of this file prints in a process of its own."""
    path = run.folder / f"{setting}.json"
    path.write_text(run.model_dump_json())
    command = f"import benchmarks.step as step; step.{task}(step.read({str(path)!r}))"
    done = subprocess.run([sys.executable, "-c", command], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout.strip().split("\n")[-1]


def read(path: str) -> RunFile:
    """The run that the parent wrote."""
    return parse_run(json.loads(Path(path).read_text()), Path(path))


def train_the_tokenizer(run: RunFile) -> None:
    """Once for both sides. A small text gives fewer tokens than the model has."""
    from corpus.documents import open_documents
    from tokenizer.loading import save_tokenizer
    from tokenizer.training import train_tokenizer

    documents = open_documents(run, run.data.train, seed=0, repeat=False)
    save_tokenizer(train_tokenizer(run, documents), run.resolve(run.tokenizer.path))
    print()


def measure_ours(run: RunFile) -> None:
    """BatchPrefetcher, AlbertPretraining and the precision that a trial picks."""
    import torch

    from corpus.documents import open_documents
    from tokenizer.loading import load_tokenizer
    from trainer.data import BatchPrefetcher
    from trainer.micro_batch import find_pace
    from trainer.models.albert import AlbertPretraining

    tokenizer = load_tokenizer(run)
    model = AlbertPretraining(_config(run, tokenizer))
    documents = open_documents(run, run.data.train, seed=0, repeat=True)
    with BatchPrefetcher(documents, tokenizer, run, batch_size=MICRO_BATCH, seed=0) as feed:
        pace = find_pace(model, feed, torch.device("cpu"), MICRO_BATCH)

        def step() -> tuple[int, int]:
            batch = feed.next()
            model.zero_grad(set_to_none=True)
            with pace.precision.autocast():
                loss = model(batch).loss
            loss.backward()
            return batch.samples, batch.tokens

        _report(step, str(pace.precision.dtype))


def measure_stock(run: RunFile) -> None:
    """The recipe of Transformers' examples."""
    import torch
    from torch.utils.data import DataLoader, IterableDataset
    from transformers import AlbertForPreTraining, DataCollatorForLanguageModeling

    from tokenizer.loading import load_tokenizer

    tokenizer = load_tokenizer(run)
    config = _config(run, tokenizer)
    config.hidden_act = "gelu_new"
    model = AlbertForPreTraining(config)
    model.train()

    class Samples(IterableDataset):
        def __iter__(self) -> Iterator[dict[str, Any]]:
            return stock_samples(run, tokenizer)

    collator = DataCollatorForLanguageModeling(
        tokenizer, mlm_probability=run.data.masked_fraction, pad_to_multiple_of=run.data.max_length
    )
    loader = iter(DataLoader(Samples(), batch_size=MICRO_BATCH, collate_fn=collator))

    def step() -> tuple[int, int]:
        batch = next(loader)
        model.zero_grad(set_to_none=True)
        model(**batch).loss.backward()
        return len(batch["input_ids"]), int(batch["attention_mask"].sum())

    _report(step, str(torch.float32))


def stock_samples(run: RunFile, tokenizer: "PreTrainedTokenizerFast", seed: int = 0) -> Iterator[dict[str, Any]]:
    """Whole sentences until a sample is full, in two segments, swapped half of the time; without end."""
    import numpy as np

    from corpus.documents import open_documents
    from trainer.data.sentences import split_sentences

    rng = np.random.default_rng(seed)
    longest = run.data.max_length - 3  # [CLS] A [SEP] B [SEP]
    for document in open_documents(run, run.data.train, seed=seed, repeat=True):
        sentences: list[list[int]] = []
        for sentence in split_sentences(document, run.language):
            tokens = tokenizer(sentence, add_special_tokens=False)["input_ids"][:longest]
            if sum(map(len, sentences)) + len(tokens) > longest:
                if len(sentences) > 1:
                    yield _stock_sample(sentences, tokenizer, rng)
                sentences = []
            sentences.append(tokens)
        if len(sentences) > 1:
            yield _stock_sample(sentences, tokenizer, rng)


def _stock_sample(sentences: list[list[int]], tokenizer: "PreTrainedTokenizerFast", rng: Any) -> dict[str, Any]:
    boundary = int(rng.integers(1, len(sentences)))
    first, second = (list(chain.from_iterable(part)) for part in (sentences[:boundary], sentences[boundary:]))
    swapped = rng.random() < 0.5
    if swapped:
        first, second = second, first
    cls, sep = tokenizer.cls_token_id, tokenizer.sep_token_id
    return {
        "input_ids": [cls, *first, sep, *second, sep],
        "token_type_ids": [0] * (len(first) + 2) + [1] * (len(second) + 1),
        "special_tokens_mask": [1] + [0] * len(first) + [1] + [0] * len(second) + [1],
        "sentence_order_label": int(swapped),
    }


def _config(run: RunFile, tokenizer: "PreTrainedTokenizerFast") -> "AlbertConfig":
    """The run's model with all tokens of the run file, though the text may have given fewer."""
    from trainer.models.albert import albert_config

    config = albert_config(run, tokenizer)
    config.vocab_size = run.tokenizer.vocab_size
    return config


def _report(step: Callable[[], tuple[int, int]], dtype: str) -> None:
    """Warm up, measure, and print a line for the parent."""
    for _ in range(WARM_UP_STEPS):
        step()
    began = time.perf_counter()
    samples = tokens = steps = 0
    while steps < STEPS or time.perf_counter() - began < SECONDS:
        computed, of_them = step()
        samples, tokens, steps = samples + computed, tokens + of_them, steps + 1
    seconds = time.perf_counter() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)
    print("\n" + json.dumps(asdict(Measured(samples / seconds, tokens / seconds, peak, dtype.removeprefix("torch.")))))


if __name__ == "__main__":
    command.run(main)
