"""How many samples at once, and in which number format."""

import math
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from transformers import PreTrainedTokenizerFast

from swarm.errors import is_memory_full
from swarm.run_file import RunFile
from trainer import micro_batch
from trainer.data import Batch, BatchPrefetcher
from trainer.micro_batch import (
    FIRST,
    FIRST_GROWTH,
    FULL_PAUSE,
    GIVEN_UP,
    LONGEST_STEP,
    SIZES,
    Fitting,
    Pace,
    best_size,
    find_pace,
    step_seconds,
)
from trainer.model import build_model
from trainer.precision import DeviceError, Precision, candidate_dtypes, pick_device


@pytest.mark.parametrize(
    ("seconds", "found"),
    [
        ({4: 0.1, 8: 0.12, 16: 0.14, 32: 0.18, 64: 0.26, 128: 0.42, 256: 0.74}, 256),
        ({4: 0.1, 8: 0.12, 16: 0.236}, 8),  # hardly faster
        ({4: 0.9, 8: LONGEST_STEP + 0.01}, 4),
        ({4: 0.1, 8: 0.1, 16: None}, 8),
        ({4: 40.0, 2: 20.0, 1: 10.0}, 1),
        ({4: LONGEST_STEP + 0.1, 2: LONGEST_STEP - 0.4}, 2),
        ({4: None, 2: LONGEST_STEP - 0.4}, 2),
        ({4: None, 2: 3.0, 1: 1.6}, 1),
        ({4: 3.0, 2: 2.4}, 4),  # fewer samples hardly help
        ({4: None, 2: None, 1: None}, 1),
    ],
)
def test_larger_sizes_are_tried_while_that_pays_and_smaller_ones_where_the_first_is_too_slow_or_too_large(
    seconds: dict[int, float | None], found: int
) -> None:
    tried: list[int] = []

    def take(size: int) -> float | None:
        tried.append(size)
        return seconds[size]

    assert best_size(take) == (found, pytest.approx(found / (seconds[found] or math.inf)))
    assert tried == list(seconds)


@pytest.mark.parametrize(
    ("device", "has_bfloat16", "expected"),
    [
        ("cuda", True, [torch.bfloat16]),
        ("cuda", False, [torch.float16]),
        ("cpu", False, [torch.float32, torch.bfloat16]),
        ("mps", False, [torch.float32]),
    ],
)
def test_each_device_has_its_number_formats(device: str, has_bfloat16: bool, expected: list[torch.dtype]) -> None:
    assert candidate_dtypes(device, has_bfloat16=has_bfloat16) == expected


def test_only_float16_scales_its_loss() -> None:
    cpu = torch.device("cpu")
    scaled = {dtype: Precision(cpu, dtype).scaler().is_enabled() for dtype in (torch.float32, torch.bfloat16)}
    assert scaled == {torch.float32: False, torch.bfloat16: False}
    assert Precision(cpu, torch.float16).scaler().is_enabled()


def test_a_device_that_is_not_there_is_an_error_of_one_line() -> None:
    for name in ("toaster", "cuda:99"):
        with pytest.raises(DeviceError, match=name) as caught:
            pick_device(name)
        assert "\n" not in str(caught.value)


def test_samples_of_the_full_length_are_tried_whatever_the_text_begins_with(
    run: RunFile, documents: list[str], tokenizer: PreTrainedTokenizerFast, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[torch.Size] = []

    def take(model: object, batch: Batch, precision: Precision) -> float:
        tried.append(batch.input_ids.shape)
        assert batch.attention_mask is None
        return 0.1

    monkeypatch.setattr(micro_batch, "step_seconds", take)
    with BatchPrefetcher([text[:45] for text in documents] * 40, tokenizer, run, batch_size=4, seed=0) as feed:
        find_pace(build_model(run, tokenizer), feed, torch.device("cpu"), None)
        assert feed.next().input_ids.shape[1] < run.data.max_length
    assert tried == [(size, run.data.max_length) for size in (FIRST, FIRST, *SIZES[SIZES.index(FIRST) + 1 :])]


def test_a_slow_device_is_told_its_speed_with_a_decimal() -> None:
    precision = Precision(torch.device("cpu"), torch.float32)
    assert Pace(1, 0.43, precision).describe() == "Computing 1 samples at a time in float32: 0.4 samples/s."
    assert Pace(64, 10.4, precision).describe().endswith(": 10 samples/s.")


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (None, "its memory is full; .* try --device cpu"),
        (64, "a micro-batch of 64 does not fit .* or --micro-batch 4"),
        (2, "a micro-batch of 2 does not fit .* or --micro-batch 1"),
    ],
)
def test_a_micro_batch_that_does_not_fit_is_an_error_of_one_line(
    given: int | None,
    told: str,
    run: RunFile,
    documents: list[str],
    tokenizer: PreTrainedTokenizerFast,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(micro_batch, "step_seconds", lambda *_: None)
    with (
        BatchPrefetcher(documents, tokenizer, run, batch_size=4, seed=0) as feed,
        pytest.raises(DeviceError, match=f"^cpu: {told}$"),
    ):
        find_pace(build_model(run, tokenizer), feed, torch.device("cpu"), given)


def test_a_trial_leaves_no_gradients_and_the_feed_at_the_size_it_found(
    run: RunFile, documents: list[str], tokenizer: PreTrainedTokenizerFast
) -> None:
    model = build_model(run, tokenizer)
    with BatchPrefetcher(documents * 20, tokenizer, run, batch_size=4, seed=0) as feed:
        given = find_pace(model, feed, torch.device("cpu"), 6)
        assert given.micro_batch == feed.next().samples == 6
        assert given.samples_per_second > 0
        found = find_pace(model, feed, torch.device("cpu"), None)
        assert found.micro_batch == feed.next().samples
        assert found.micro_batch in SIZES
    assert all(parameter.grad is None for parameter in model.parameters())


class LazyDevice:
    """Launches what is to be computed, and computes it when it is waited for."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, room: int) -> None:
        self.room, self.launched, self.now, self.freed = room, 0, 0.0, 0
        monkeypatch.setattr(micro_batch, "time", SimpleNamespace(perf_counter=lambda: self.now))
        monkeypatch.setattr(torch.accelerator, "synchronize", self.compute)
        monkeypatch.setattr(torch.mps, "empty_cache", self.free)

    def __call__(self, batch: Batch) -> SimpleNamespace:
        if batch.samples > self.room:
            raise RuntimeError("MPS backend out of memory")
        self.launched += 1
        return SimpleNamespace(loss=torch.zeros(1, requires_grad=True))

    def compute(self, device: torch.device) -> None:
        assert device.type == "mps"
        self.now, self.launched = self.now + 0.5 * self.launched, 0

    def free(self) -> None:
        self.freed += 1

    def parameters(self) -> list[torch.nn.Parameter]:
        return [torch.nn.Parameter(torch.zeros(1))]

    def zero_grad(self, *, set_to_none: bool) -> None:
        """It has no gradients."""


def test_every_device_but_the_processor_is_waited_for_and_its_memory_freed(
    full: Batch, monkeypatch: pytest.MonkeyPatch
) -> None:
    device: Any = LazyDevice(monkeypatch, room=full.samples)
    precision = Precision(torch.device("mps"), torch.float32)
    assert step_seconds(device, full, precision) == 0.5
    assert not device.freed
    device.room = 0
    assert step_seconds(device, full, precision) is None
    assert device.freed == 1


def test_where_memory_is_full_a_micro_batch_gets_smaller_and_later_larger_again() -> None:
    fitting, cpu = Fitting(6), torch.device("cpu")
    sizes = []
    for now in (0.0, 10.0, 20.0):
        fitting.was_full(cpu, now)
        sizes.append(fitting.size)
    assert sizes == [3, 1, 1] and fitting.try_at == 20.0 + FULL_PAUSE
    fitting.has_fitted(30.0)
    assert fitting.size == 1
    growing = 20.0 + 4 * FIRST_GROWTH  # it was full three times
    for now in (growing, growing + 1.0, growing + FIRST_GROWTH, growing + 2 * FIRST_GROWTH, growing + 9 * FIRST_GROWTH):
        fitting.has_fitted(now)
        sizes.append(fitting.size)
    assert sizes[3:] == [2, 2, 4, 6, 6], "not more than the trial has found"


def test_a_device_without_room_for_a_single_sample_is_given_up_after_minutes() -> None:
    fitting, cpu = Fitting(1), torch.device("cpu")
    fitting.was_full(cpu, 0.0)
    fitting.was_full(cpu, GIVEN_UP - 1.0)
    fitting.has_fitted(GIVEN_UP)
    fitting.was_full(cpu, GIVEN_UP + 1.0)
    with pytest.raises(DeviceError, match=r"^cpu: its memory is full; .* --device cpu$"):
        fitting.was_full(cpu, 2 * GIVEN_UP + 1.0)


def test_a_full_memory_is_told_from_other_errors() -> None:
    assert is_memory_full(torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB"))
    assert is_memory_full(RuntimeError("CUDA error: out of memory"))
    assert not is_memory_full(RuntimeError("CUDA error: an illegal memory access was encountered"))


@pytest.mark.parametrize(("given", "expected"), [(None, 32), (256, 4 * 40), (8, 8)])
def test_a_micro_batch_is_not_more_than_a_peer_may_bring(
    given: int | None,
    expected: int,
    run: RunFile,
    documents: list[str],
    tokenizer: PreTrainedTokenizerFast,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(micro_batch, "step_seconds", lambda *_: 0.1)
    with BatchPrefetcher(documents * 20, tokenizer, run, batch_size=4, seed=0) as feed:
        found = find_pace(build_model(run, tokenizer), feed, torch.device("cpu"), given, target_batch_size=40)
    assert found.micro_batch == expected
    assert ("one peer may bring to a global step, and --micro-batch 256 is more" in found.describe()) == (given == 256)
