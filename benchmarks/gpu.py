"""Samples and tokens per second, MFU and memory of a trainer's step on a GPU, ours beside the stock recipe.

    python -m benchmarks.gpu [--json FILE] [--repeats N] [--sizes 16,64] [--peak TFLOP/S] [--compiled]

A step is the transfer of a batch, forward, backward and reading the loss; there is no data to prepare and no
optimizer. *Handed over*: with the copy of the gradient that a trainer makes for the swarm. The model is that of
`runs/bengali.yaml` (ALBERT-large), the samples are of the full length and without padding, the same for all sides,
which take turns. *stock* is `AlbertForPreTraining` with scores of the whole vocabulary at every position and the tanh
approximation of GELU.

The model FLOPs of a step are what torch's counter counts in the matrix products of each side's own forward and
backward pass with plain attention, nothing computed again; MFU is their rate as a fraction of the peak. *ours*
needs fewer for the same gradient: compare the sides by samples per second, not by MFU.
"""

import copy
import gc
import json
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from pydoc_data.topics import topics
from typing import Annotated, Any

import torch
import typer
from rich.console import Console
from rich.table import Table
from torch import nn
from torch.utils.flop_counter import FlopCounterMode
from transformers import AlbertConfig, AlbertForPreTraining

from averaging.reduce.gradient_vector import GradientVector
from benchmarks.support import command
from swarm.errors import SahajError
from swarm.files import write_file
from swarm.run_file import RunFile, load_run
from tokenizer.training import train_tokenizer
from trainer.data import Batch
from trainer.data.batch import Collator
from trainer.model import compile_layers
from trainer.models.albert import AlbertPretraining, albert_config
from trainer.precision import Precision, candidate_dtypes, device_name, pick_device, use_fast_arithmetic

PEAK = 989.0  # dense bfloat16 TFLOP/s of an H100 or H200 (SXM), by NVIDIA's data sheet
SECONDS = 2.0  # that are measured at least, after the warm-up
STEPS = 3  # that are measured at least
WARM_UP_STEPS = 3
ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Turn:
    """What one turn of a side took."""

    seconds: float  # of a step
    memory: int  # bytes, at most at once


@dataclass(frozen=True)
class Side:
    """One way to compute a step."""

    ours: bool
    dtype: torch.dtype
    compiled: bool = False
    hands_over: bool = False

    @property
    def name(self) -> str:
        """What the table calls it."""
        dtype = str(self.dtype).removeprefix("torch.")
        more = f"{', compiled' if self.compiled else ''}{', handed over' if self.hands_over else ''}"
        return f"{'ours' if self.ours else 'stock'}, {dtype}{more}"


def main(
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the figures to this file.")] = None,
    repeats: Annotated[int, typer.Option(min=1, help="Turns of each side; the median counts.")] = 3,
    sizes: Annotated[str, typer.Option(help="Micro-batches to measure, with commas.")] = "8,32,128",
    peak: Annotated[float, typer.Option(min=1.0, help="The GPU's TFLOP/s in 16 bits, without sparsity.")] = PEAK,
    compiled: Annotated[bool, typer.Option("--compiled", help="Ours with torch.compile too.")] = False,
) -> None:
    """Measure all sides at each micro-batch and print a table."""
    if not torch.cuda.is_available():
        raise SahajError("this benchmark needs a GPU with CUDA, and torch finds none")
    if not all(size.strip().isdecimal() and int(size) for size in sizes.split(",")):
        raise SahajError(f"--sizes {sizes}: give whole numbers above 0 with commas between them, such as 8,32")
    device = pick_device("cuda")
    # no emulation, as in the trainer
    (dtype,) = candidate_dtypes("cuda", has_bfloat16=torch.cuda.is_bf16_supported(including_emulation=False))
    sides = [Side(True, dtype), Side(True, dtype, hands_over=True), Side(False, torch.float32), Side(False, dtype)]
    sides += [Side(True, dtype, compiled=True)] * compiled
    run = load_run(ROOT / "runs" / "bengali.yaml")
    config, collator = prepare(run)
    figures = {
        size: measure(config, collator.longest(size), sides, device, repeats, peak)
        for size in map(int, sizes.split(","))
    }
    if json_file is not None:
        found = {"gpu": device_name(device), "torch": torch.__version__, "peak_tflops": peak, "micro_batches": figures}
        write_file(json_file, json.dumps(found, indent=2) + "\n")
    Console().print(table(figures, device_name(device)))


def prepare(run: RunFile) -> tuple[AlbertConfig, Collator]:
    """The run's model with all tokens of the run file, and a maker of batches; Python's documentation is the text."""
    tokenizer = train_tokenizer(run, [topics[topic] for topic in sorted(topics)])
    config = albert_config(run, tokenizer)
    config.vocab_size = run.tokenizer.vocab_size
    return config, Collator(tokenizer, run.data)


def measure(
    config: AlbertConfig, batch: Batch, sides: list[Side], device: torch.device, repeats: int, peak: float
) -> dict[str, dict[str, Any] | None]:
    """Medians of each side's turns; None where the batch does not fit into memory."""
    operations = {ours: model_flops(config, batch, ours=ours) for ours in (True, False)}
    taken: dict[Side, list[Turn] | None] = {side: [] for side in sides}
    torch._dynamo.reset()
    steps = {side: stepper(config, batch, side, device) for side in sides}
    for _ in range(repeats):
        for side, step in steps.items():
            turns = taken[side]
            if turns is not None:
                turn = take_turn(step, side, device)
                taken[side] = None if turn is None else [*turns, turn]
    result: dict[str, dict[str, Any] | None] = {}
    for side, turns in taken.items():
        if turns is None:
            result[side.name] = None
            continue
        median = statistics.median(turn.seconds for turn in turns)
        tflops = operations[side.ours] / median / 1e12
        result[side.name] = {
            "samples_per_second": round(batch.samples / median, 1),
            "tokens_per_second": round(batch.tokens / median),
            "model_tflops_per_second": round(tflops, 1),
            "mfu": round(tflops / peak, 4),
            "memory_gb": round(max(turn.memory for turn in turns) / 1e9, 1),
            "repeats": [round(batch.samples / turn.seconds, 1) for turn in turns],
        }
    return result


def stepper(config: AlbertConfig, batch: Batch, side: Side, device: torch.device) -> Callable[[], float]:
    """A function that computes one step of a side and returns the loss, in nats."""
    model = build(config, ours=side.ours)
    model.to(device).train()
    if side.compiled:
        compile_layers(model)
    precision = Precision(device, side.dtype)
    gradient = GradientVector(list(model.parameters()))

    def step() -> float:
        model.zero_grad(set_to_none=True)
        with precision.autocast():
            loss = model(batch.to(device)).loss
        loss.backward()
        if side.hands_over:
            gradient.times(1)
        return float(loss.detach())

    return step


class Stock(nn.Module):
    """Transformers' model with its own attention, given batches of ours as it wants them."""

    def __init__(self, config: AlbertConfig):
        super().__init__()
        config = copy.deepcopy(config)
        config.hidden_act = "gelu_new"
        self.model = AlbertForPreTraining(config)

    def forward(self, batch: Batch) -> Any:
        """Transformers' output of a batch, with its loss."""
        ids = batch.input_ids
        labels = torch.full_like(ids, -100).flatten().index_copy(0, batch.masked_positions, batch.masked_labels)
        return self.model(
            input_ids=ids,
            token_type_ids=batch.token_type_ids,
            attention_mask=batch.attention_mask,
            labels=labels.view_as(ids),
            sentence_order_label=batch.sentence_order_label,
        )


def build(config: AlbertConfig, *, ours: bool) -> nn.Module:
    """A side's model with its initial weights."""
    torch.manual_seed(0)
    return AlbertPretraining(copy.deepcopy(config)) if ours else Stock(config)


def model_flops(config: AlbertConfig, batch: Batch, *, ours: bool) -> int:
    """Floating-point operations in the matrix products of a step, counted without computing anything."""
    meta = torch.device("meta")
    with meta:
        model = build(config, ours=ours)
    albert: Any = model.model if isinstance(model, Stock) else model
    albert.set_attn_implementation("eager")  # products that are counted one by one, and none of them twice
    with FlopCounterMode(display=False) as counter:
        model(batch.to(meta)).loss.backward()
    return int(counter.get_total_flops())


def take_turn(step: Callable[[], float], side: Side, device: torch.device) -> Turn | None:
    """The mean of some steps after a warm-up; None: out of memory."""
    torch.set_float32_matmul_precision("highest")  # torch's default, which the stock recipe leaves as it is
    if side.ours:
        use_fast_arithmetic(device)
    has_counter = device.type == "cuda"
    if has_counter:
        torch.cuda.reset_peak_memory_stats(device)
    try:
        for _ in range(WARM_UP_STEPS):
            step()
        _wait(device)
        began, steps = time.perf_counter(), 0
        while steps < STEPS or time.perf_counter() - began < SECONDS:
            step()
            steps += 1
        _wait(device)
        seconds = (time.perf_counter() - began) / steps
        return Turn(seconds, torch.cuda.max_memory_allocated(device) if has_counter else 0)
    except torch.OutOfMemoryError:
        return None
    finally:
        gc.collect()
        if has_counter:
            torch.cuda.empty_cache()


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def table(figures: dict[int, dict[str, dict[str, Any] | None]], gpu: str) -> Table:
    """The figures for people."""
    shown = Table(title=f"A step of ALBERT-large with samples of 512 tokens on {gpu}, no optimizer")
    for column in ("micro-batch", "side", "samples/s", "tokens/s", "model TFLOP/s", "MFU", "memory, GB"):
        shown.add_column(column, justify="left" if column == "side" else "right")
    for size, sides in figures.items():
        for name, one in sides.items():
            if one is None:
                shown.add_row(str(size), name, "does not fit")
                continue
            rates = [f"{one[key]:,}" for key in ("samples_per_second", "tokens_per_second", "model_tflops_per_second")]
            shown.add_row(str(size), name, *rates, f"{one['mfu']:.1%}", str(one["memory_gb"]))
    return shown


if __name__ == "__main__":
    command.run(main)
