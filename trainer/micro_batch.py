"""How many samples to compute at once, and in which number format, found by trying.

A larger micro-batch is faster until the device is full, but on a slow device it makes a peer notice the end of a global
step late. So it grows while that pays, up to a step of about a second. The trial uses samples of full length: short
ones would look fast, and a micro-batch of them may fit into memory where one of long samples does not.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

import torch

from swarm.language import _
from trainer.data import Batch, BatchPrefetcher
from trainer.model import PretrainingModel
from trainer.precision import DeviceError, Precision, candidate_dtypes

SIZES = (4, 8, 16, 32, 64, 128, 256)
LONGEST_STEP = 1.0  # seconds; peers look at the swarm's progress between steps
WORTH_IT = 1.05  # growing must give 5 % more samples a second: less is within the noise of a trial


@dataclass(frozen=True)
class Pace:
    """How this peer computes, and how fast it is that way."""

    micro_batch: int
    samples_per_second: float
    precision: Precision

    def describe(self) -> str:
        """One line for the volunteer."""
        dtype = str(self.precision.dtype).removeprefix("torch.")
        return _("Computing {n} samples at a time in {format}: {speed} samples/s.").format(
            n=self.micro_batch, format=dtype, speed=f"{self.samples_per_second:.0f}"
        )


def find_pace(model: PretrainingModel, batches: BatchPrefetcher, device: torch.device, micro_batch: int | None) -> Pace:
    """Try number formats on a small micro-batch, then grow it; sets the batch size that was found.

    A micro-batch that is given is kept, only its speed in each format is measured.

    Raises:
        DeviceError: the micro-batch that is given, or the smallest, does not fit into memory.
    """

    def seconds(size: int, dtype: torch.dtype) -> float | None:
        return step_seconds(model, batches.longest(size).to(device), Precision(device, dtype))

    has_bfloat16 = device.type == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False)
    dtypes = candidate_dtypes(device.type, has_bfloat16=has_bfloat16)
    start = micro_batch or SIZES[0]
    timed = {dtype: seconds(start, dtype) or float("inf") for dtype in dtypes}
    dtype = min(timed, key=timed.__getitem__)
    size, speed = start, start / timed[dtype]
    if micro_batch is None:
        size, speed = grow(lambda size: timed[dtype] if size == start else seconds(size, dtype))
    if not speed:
        if size > SIZES[0]:
            told = _("{device}: a micro-batch of {n} does not fit into memory; try --device cpu or --micro-batch {few}")
        else:
            told = _("{device}: a micro-batch of {n} does not fit into memory; try --device cpu")
        raise DeviceError(told.format(device=device, n=size, few=SIZES[0]))
    batches.set_batch_size(size)
    return Pace(size, speed, Precision(device, dtype))


def grow(
    seconds: Callable[[int], float | None], sizes: tuple[int, ...] = SIZES, longest: float = LONGEST_STEP
) -> tuple[int, float]:
    """The size to use and its samples per second.

    Args:
        seconds: the time of a step of so many samples, or None if it does not fit into memory.
        sizes: in growing order; the smallest is used even if it takes longer than `longest` seconds.
    """
    best, speed = sizes[0], 0.0
    for size in sizes:
        taken = seconds(size)
        if taken is None or (size > sizes[0] and taken > longest):
            break
        if size / taken < speed * WORTH_IT:
            break
        best, speed = size, size / taken
    return best, speed


def smaller(size: int, device: torch.device) -> int:
    """The micro-batch to go on with after one of `size` samples has not fitted into memory, though it did in the trial.

    Raises:
        DeviceError: it was a single sample.
    """
    if size == 1:
        raise memory_full(device)
    return size // 2


def memory_full(device: torch.device) -> DeviceError:
    """The model, or a single sample, does not fit into memory."""
    told = _("{device}: its memory is full; end other programs that use it, or try --device cpu")
    return DeviceError(told.format(device=device))


def step_seconds(model: PretrainingModel, batch: Batch, precision: Precision, repeats: int = 2) -> float | None:
    """Seconds of a forward and backward pass, the best of `repeats` after a warm-up; None: out of memory."""
    best = float("inf")
    try:
        for attempt in range(repeats + 1):
            began = time.perf_counter()
            with precision.autocast():
                loss = model(batch).loss
            loss.backward()
            if precision.device.type == "cuda":
                torch.cuda.synchronize(precision.device)
            if attempt:
                best = min(best, time.perf_counter() - began)
            if attempt and best > LONGEST_STEP:
                break
    except torch.OutOfMemoryError:
        torch.cuda.empty_cache()
        return None
    finally:
        model.zero_grad(set_to_none=True)
    return best
