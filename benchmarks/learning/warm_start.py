"""Samples to the same held-out loss: a run that starts from a model of another language, beside one from scratch.

    python -m benchmarks.learning.warm_start shared/data/bengali --json warm_start.json

The model is pretrained on the demo's English text (Python's documentation) and carried to the text of the folder, whose
`train.jsonl` and `validation.jsonl` have a text in each line. One process trains, with the data feed and the optimizer
of a run; both starts see the same samples in the same order. `--donor` takes a model that was trained before.
"""

import json
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import torch
import typer
from rich.console import Console
from rich.table import Table

from app.demo.corpus import prepare_corpus
from benchmarks.learning.learner import Curve, HeldOut, Point, begun, learn, make_tokenizer, our_batches
from benchmarks.support import command
from swarm.errors import SahajError
from swarm.files import write_file
from swarm.run_file import RunFile, parse_run
from tokenizer.loading import load_tokenizer
from trainer.model import PretrainingModel

BATCH = 320  # samples of a global step
EVERY = 10  # global steps between two evaluations
LOSSES = (7.0, 6.75, 6.5, 6.25, 6.0, 5.75, 5.5)  # nats; a table of word frequencies has 7.2 on the Bengali text
SHAPE = {  # of runs/bengali-hour.yaml
    "hidden_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 512,
    "embedding_size": 128,
    "initializer_range": 0.08,
}


@dataclass(frozen=True)
class Reached:
    """Samples after which the held-out loss was reached, between two evaluations in a line."""

    loss: float
    samples_scratch: float
    samples_warm: float

    @property
    def samples_ratio(self) -> float:
        """What the start from a trained model needs, of what the one from scratch needs."""
        return self.samples_warm / self.samples_scratch


def main(
    corpus: Annotated[Path, typer.Argument(help="Folder with train.jsonl and validation.jsonl.", exists=True)],
    language: Annotated[str, typer.Option(help="Of the text.")] = "bn",
    steps: Annotated[int, typer.Option(min=EVERY, help="Global steps of both.")] = 300,
    donor: Annotated[Path | None, typer.Option(help="A trained model; absent: train one.", file_okay=False)] = None,
    donor_steps: Annotated[int, typer.Option(min=EVERY, help="Global steps of the English model.")] = 400,
    learning_rate: Annotated[float, typer.Option(help="Of all three.")] = 0.008,
    warmup: Annotated[int, typer.Option(help="Steps of warm-up of all three.")] = 20,
    seed: Annotated[int, typer.Option(help="Of the weights, and of the order of the text.")] = 0,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the figures to this file.")] = None,
) -> None:
    """Train the donor, then both starts, and print how many samples each needs."""
    torch.set_num_threads(1)
    rate = {"learning_rate": learning_rate, "warmup_steps": warmup}
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        if donor is None:
            donor = pretrained(folder / "english", donor_steps, rate)
        settings = run_content("warm-start", language, rate, seed, str(corpus.resolve()), steps)
        cold = parse_run(settings, folder / "run.yaml")
        make_tokenizer(cold)
        warm = parse_run(
            {**settings, "model": settings["model"] | {"start_from": str(donor.resolve())}}, folder / "run.yaml"
        )
        curves = {
            "scratch": train(cold, begun(cold), "from scratch"),
            "warm": train(warm, begun(warm), "from the model"),
        }
    reached = compare(curves["scratch"], curves["warm"])
    if not reached:
        raise SahajError(f"no loss of {LOSSES} was reached by both; raise --steps")
    if json_file is not None:
        last = reached[-1]
        figures = {
            "samples_ratio": last.samples_ratio,
            **asdict(last),
            "losses": [{**asdict(one), "samples_ratio": one.samples_ratio} for one in reached],
            "curves": {name: asdict(curve) for name, curve in curves.items()},
            "seed": seed,
            "learning_rate": learning_rate,
            "warmup_steps": warmup,
        }
        write_file(json_file, json.dumps(figures, indent=2) + "\n")
    Console().print(table(reached))


def compare(scratch: Curve, warm: Curve) -> list[Reached]:
    """The losses that both have reached."""
    found = [(loss, scratch.samples_to(loss), warm.samples_to(loss)) for loss in LOSSES]
    return [Reached(loss, one, other) for loss, one, other in found if one is not None and other is not None]


def run_content(name: str, language: str, rate: dict[str, Any], seed: int, corpus: str, steps: int) -> dict[str, Any]:
    """A run file whose tokenizer lies beside it."""
    sources = {part: [{"path": f"{corpus}/{part}.jsonl"}] for part in ("train", "validation")}
    return {
        "name": name,
        "language": language,
        "model": SHAPE | {"seed": seed},
        "tokenizer": {"vocab_size": 8000},
        "data": {**sources, "max_length": 64, "max_ngram": 1, "masked_fraction": 0.3, "shuffle_buffer": 2000},
        "optimizer": {"name": "muon", "betas": [0.9, 0.98], "total_steps": steps} | rate,
        "averaging": {"target_batch_size": BATCH},
    }


def pretrained(folder: Path, steps: int, rate: dict[str, Any]) -> Path:
    """A model of the demo's English text, in a folder of its own."""
    folder.mkdir()
    run = parse_run(run_content("english", "en", rate, 0, str(folder), steps), folder / "run.yaml")
    prepare_corpus(run, None, folder)
    make_tokenizer(run)
    model = begun(run)
    train(run, model, "English")
    model.save_pretrained(folder / "model")
    load_tokenizer(run).save_pretrained(folder / "model")
    return folder / "model"


def train(run: RunFile, model: PretrainingModel, name: str) -> Curve:
    """All global steps of the run."""

    def see(point: Point) -> None:
        typer.echo(f"{name}: {point.samples:,} samples, {point.loss:.3f} nats")

    return learn(run, model, our_batches(run, run.model.seed), HeldOut(run), EVERY, see)


def table(reached: list[Reached]) -> Table:
    """The figures for people."""
    shown = Table("held-out loss, nats", "samples from scratch", "from the model", "ratio")
    for one in reached:
        shown.add_row(
            f"{one.loss:g}", f"{one.samples_scratch:,.0f}", f"{one.samples_warm:,.0f}", f"{one.samples_ratio:.2f}"
        )
    return shown


if __name__ == "__main__":
    command.run(main)
