"""How many samples to compute at once, and in which number format, found by trying.

A larger micro-batch is faster until the device is full, but on a slow device it makes a peer notice the end of a global
step late, and what comes too late counts for nothing. So it grows while that pays, up to a step of about a second. The
trial uses samples of full length: short ones would look fast, and a micro-batch of them may fit into memory where one
of long samples does not.
"""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch

from averaging.protocol.settings import MOST_BATCHES
from averaging.reduce.gradient_vector import GradientVector
from swarm.errors import is_memory_full
from swarm.language import _
from trainer.data import Batch, BatchPrefetcher
from trainer.model import PretrainingModel
from trainer.precision import DeviceError, Precision, candidate_dtypes, empty_cache, wait_for

SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
FIRST = 4  # is tried before larger ones, and before smaller ones only where it is too slow or too large
LONGEST_STEP = 1.0  # seconds; peers look at the swarm's progress between steps
SHORTER = 0.75  # a smaller micro-batch helps only if half the samples take at most so much of the time
WORTH_IT = 1.05  # growing must give 5 % more samples a second: less is within the noise of a trial
FULL_PAUSE = 2.0  # seconds after a micro-batch that has not fitted into memory
GIVEN_UP = 300.0  # seconds without room for a single sample after which a peer leaves
FIRST_GROWTH, LAST_GROWTH = 600.0, 4 * 3600.0  # seconds after which a micro-batch that was made smaller is doubled


@dataclass(frozen=True)
class Pace:
    """How this peer computes, and how fast it is that way."""

    micro_batch: int
    samples_per_second: float
    precision: Precision
    asked_micro_batch: int | None = None  # by --micro-batch

    def describe(self) -> str:
        """One line for the volunteer."""
        dtype = str(self.precision.dtype).removeprefix("torch.")
        speed = self.samples_per_second
        told = _("Computing {n} samples at a time in {format}: {speed} samples/s.")
        if self.asked_micro_batch not in (None, self.micro_batch):
            told += " " + _(
                "That is the most that one peer may bring to a global step, and --micro-batch {asked} is more."
            )
        return told.format(
            n=self.micro_batch,
            format=dtype,
            speed=f"{speed:.1f}" if speed < 10 else f"{speed:.0f}",
            asked=self.asked_micro_batch,
        )


def find_pace(
    model: PretrainingModel,
    batches: BatchPrefetcher,
    device: torch.device,
    micro_batch: int | None,
    target_batch_size: int = SIZES[-1],
) -> Pace:
    """Try number formats on a small micro-batch, then other sizes; sets the batch size that was found.

    A micro-batch that is given is kept, up to what one peer may bring to a step; only its speed in each format is
    measured.

    Raises:
        DeviceError: the micro-batch that is given, or a single sample, does not fit into memory.
    """

    def seconds(size: int, dtype: torch.dtype) -> float | None:
        return step_seconds(model, batches.longest(size).to(device), Precision(device, dtype))

    has_bfloat16 = False
    if device.type == "cuda":
        with torch.cuda.device(device):  # the question is about the current device
            has_bfloat16 = torch.cuda.is_bf16_supported(including_emulation=False)
    dtypes = candidate_dtypes(device.type, has_bfloat16=has_bfloat16)
    if micro_batch is None:
        sizes = tuple(size for size in SIZES if size <= target_batch_size)
    else:
        sizes = (min(micro_batch, MOST_BATCHES * target_batch_size),)
    start = first_of(sizes)
    timed = {dtype: seconds(start, dtype) for dtype in dtypes}
    dtype = min(timed, key=lambda dtype: timed[dtype] or math.inf)
    size, speed = best_size(lambda size: timed[dtype] if size == start else seconds(size, dtype), sizes)
    if not speed and size == 1:
        raise memory_full(device)
    if not speed:
        told = _("{device}: a micro-batch of {n} does not fit into memory; try --device cpu or --micro-batch {few}")
        raise DeviceError(told.format(device=device, n=size, few=min(FIRST, size // 2)))
    batches.set_batch_size(size)
    return Pace(size, speed, Precision(device, dtype), micro_batch)


def first_of(sizes: tuple[int, ...]) -> int:
    """The size to try first."""
    return max(sizes[0], min(FIRST, sizes[-1]))


def best_size(seconds: Callable[[int], float | None], sizes: tuple[int, ...] = SIZES) -> tuple[int, float]:
    """The size to use and its samples per second, 0.0 if not even the smallest fits into memory.

    Args:
        seconds: the time of a step of so many samples, or None if it does not fit into memory.
        sizes: in growing order, each twice the one before; the smallest is used even if it takes longer than
            `LONGEST_STEP`.
    """
    best = first_of(sizes)
    taken = seconds(best) or math.inf
    if taken > LONGEST_STEP:
        while best > sizes[0] and taken > LONGEST_STEP:
            shorter = seconds(best // 2) or math.inf
            if shorter > SHORTER * taken:
                break
            best, taken = best // 2, shorter
        return best, best / taken
    speed = best / taken
    for size in sizes[sizes.index(best) + 1 :]:
        taken = seconds(size) or math.inf
        if taken > LONGEST_STEP or size / taken < speed * WORTH_IT:
            break
        best, speed = size, size / taken
    return best, speed


class Fitting:
    """The micro-batch while training goes on: smaller where memory is full, as other programs use it, and larger later.

    Args:
        size: that fitted in the trial.
    """

    def __init__(self, size: int):
        self.size, self._largest = size, size
        self.try_at = 0.0  # not before: memory may be free again soon
        self._full_since: float | None = None  # even for a single sample
        self._grow_at, self._grow_after = 0.0, FIRST_GROWTH

    def was_full(self, device: torch.device, now: float) -> None:
        """A micro-batch of this size has not fitted.

        Raises:
            DeviceError: for minutes not even a single sample has.
        """
        if self.size == 1:
            self._full_since = now if self._full_since is None else self._full_since
            if now >= self._full_since + GIVEN_UP:
                raise memory_full(device)
        self.size = max(1, self.size // 2)
        self.try_at = now + FULL_PAUSE
        self._grow_at, self._grow_after = now + self._grow_after, min(2 * self._grow_after, LAST_GROWTH)

    def has_fitted(self, now: float) -> None:
        """A micro-batch was computed; the next one is twice as large if memory was full long ago."""
        self._full_since = None
        if self.size < self._largest and now >= self._grow_at:
            self.size, self._grow_at = min(self._largest, 2 * self.size), now + FIRST_GROWTH


def memory_full(device: torch.device) -> DeviceError:
    """What to tell a volunteer if the model, or a single sample, does not fit."""
    told = _("{device}: its memory is full; end other programs that use it, or try --device cpu")
    return DeviceError(told.format(device=device))


def step_seconds(model: PretrainingModel, batch: Batch, precision: Precision) -> float | None:
    """Seconds of a forward and backward pass and of handing the gradient over, the better of two after a warm-up.

    None: out of memory.
    """
    best = float("inf")
    try:
        gradient = GradientVector(list(model.parameters()))
        for attempt in range(3):
            began = time.perf_counter()
            with precision.autocast():
                loss = model(batch).loss
            loss.backward()
            gradient.times(1)
            wait_for(precision.device)
            if attempt:
                best = min(best, time.perf_counter() - began)
            if attempt and best > LONGEST_STEP:
                break
    except RuntimeError as error:
        if not is_memory_full(error):
            raise
        empty_cache(precision.device)
        return None
    finally:
        model.zero_grad(set_to_none=True)
    return best
