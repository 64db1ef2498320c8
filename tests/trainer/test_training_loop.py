"""The training loop: whether a leaving peer waits for a round, what it says that it does, and what it gets over."""

import queue
import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch
from transformers import PreTrainedTokenizerFast

from averaging.shell.shell import Progress
from swarm.run_file import RunFile
from tests.support.waiting import wait_until
from trainer import micro_batch, training_loop
from trainer.console.loop_messages import UNCOUNTED, lateness_line, role_line
from trainer.console.status import status_of
from trainer.credit_tracker import CreditTracker
from trainer.data import Batch, BatchPrefetcher
from trainer.pausing.watch import PauseWatch
from trainer.precision import DeviceError
from trainer.training_loop import TrainingLoop, may_begin_within
from trainer.training_step import BatchResult


def test_a_peer_that_has_to_leave_stays_if_the_round_may_begin_in_time() -> None:
    assert may_begin_within(5.0, gathered=750, target=1000, since=15.0)
    assert not may_begin_within(4.9, gathered=750, target=1000, since=15.0)
    assert not may_begin_within(5.0, gathered=0, target=1000, since=15.0)


def test_what_a_peer_says_that_it_does() -> None:
    training = Progress(gathered=10, own=5, peers=3, in_round=False, is_behind=False)
    assert status_of(training, has_state=True) == "training"
    assert status_of(replace(training, peers=1), has_state=True) == "training alone until others join"
    assert status_of(replace(training, in_round=True), has_state=True) == "averaging"
    assert status_of(replace(training, rests=True), has_state=True) == "following the others"
    assert status_of(replace(training, rests=True, share=0.5), has_state=True) == "averaging for the others"
    assert status_of(replace(training, is_behind=True), has_state=True) == "catching up with the others"
    assert status_of(training, has_state=False) == "loading the state of the run"
    assert status_of(replace(training, peers=1), has_state=False) == "waiting for the others"
    assert status_of(training, has_state=True, lacks_text=True) == "waiting for text"


def test_a_volunteer_is_told_once_that_gradients_come_too_late_and_once_that_they_do_not_any_more() -> None:
    told = [
        lateness_line(late, was_told=was) for late, was in ((2, False), (3, False), (4, True), (1, True), (0, True))
    ]
    assert told[0] is told[2] is told[3] is None
    assert told[1] is not None and told[1].startswith("In 3 of the last 5 global steps your results arrived too late")
    assert told[4] == "Your results arrive in time again."
    assert lateness_line(0, was_told=False) is None


class Swarm:
    """What a loop asks of the optimizer and of its session's record, alone in a run that never takes a step."""

    trains, client_mode = True, False
    step, states_loaded = 3, 0
    session, sessions = "asha.0", frozenset[str]()
    upload = None
    progress = Progress(gathered=0, own=0, peers=1, in_round=False, is_behind=False)

    def __init__(self) -> None:
        self.speeds: list[float] = []
        self.published: list[float] = []

    def computes_at(self, speed: float) -> None:
        self.speeds.append(speed)

    def await_state(self, seconds: float) -> None:
        """There is none to wait for."""

    def publish(self, session: str, step: int, speed: float, *_: Any) -> None:
        self.published.append(speed)


def loop_with(run: RunFile, batches: BatchPrefetcher, step: Any, swarm: Any) -> TrainingLoop:
    credit = CreditTracker(run.data.masked_fraction, enforces=False)
    return TrainingLoop(run, "asha", step, swarm, batches, 7.0, credit, queue.SimpleQueue(), swarm, PauseWatch())


class SmallDevice:
    """A training step on a device that holds a few samples."""

    device = torch.device("cpu")

    def __init__(self, room: int) -> None:
        self.room, self.counts, self.computed = room, True, 0

    def __call__(self, batch: Batch) -> BatchResult:
        if batch.samples > self.room:
            raise torch.OutOfMemoryError("CUDA out of memory")
        self.computed += 1
        return BatchResult(batch.samples, 7.5, 2.0, is_finite=True, is_overflow=False, counts=self.counts)


def test_a_memory_that_has_become_full_takes_fewer_samples_at_a_time(
    run: RunFile, tokenizer: PreTrainedTokenizerFast, documents: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(micro_batch, "FULL_PAUSE", 0.0)
    monkeypatch.setattr(micro_batch, "GIVEN_UP", 0.0)
    with BatchPrefetcher(documents * 40, tokenizer, run, batch_size=8, seed=0) as batches:
        device = SmallDevice(room=2)
        loop, counted = loop_with(run, batches, device, Swarm()), False
        messages: list[str] = []
        while not counted:
            outcome = loop.step(compute=True)
            messages += outcome.messages
            counted = outcome.counted
        assert messages == [f"The memory is full: computing {n} samples at a time." for n in (4, 2)]
        assert batches.next().samples <= 2
        device.room = 0
        with pytest.raises(DeviceError, match="memory is full"):
            while True:
                loop.step(compute=True)


def test_a_volunteer_whose_device_is_too_slow_to_count_is_told_once(
    run: RunFile, tokenizer: PreTrainedTokenizerFast, documents: list[str]
) -> None:
    with BatchPrefetcher(documents * 40, tokenizer, run, batch_size=4, seed=0) as batches:
        device = SmallDevice(room=4)
        loop = loop_with(run, batches, device, Swarm())
        messages: list[str] = []
        for counts, times in (False, UNCOUNTED - 1), (True, 1), (False, 2 * UNCOUNTED):
            device.counts, device.computed = counts, 0
            while device.computed < times:
                messages += loop.step(compute=True).messages
            assert bool(messages) == (times > UNCOUNTED)
    (told,) = messages
    assert told.startswith("Your last 5 results came too late to count: each took 7.5 s,")


def test_while_no_text_arrives_the_loop_goes_on_and_says_so_once(
    run: RunFile, tokenizer: PreTrainedTokenizerFast, documents: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(training_loop, "LACKING", 0.0)
    answers = threading.Event()

    class Text:
        trouble = "owner/text: no connection"

        def __iter__(self) -> Iterator[str]:
            answers.wait()
            yield from documents * 40

    swarm = Swarm()
    with BatchPrefetcher(Text(), tokenizer, run, batch_size=4, seed=0) as batches:
        loop = loop_with(run, batches, SmallDevice(room=4), swarm)
        messages: list[str] = []
        for _ in range(3):
            messages += loop.step(compute=True).messages
        told = "No text has arrived for 0 s (owner/text: no connection). This program goes on when it does."
        assert messages == [told]
        assert loop.view().status == "waiting for text" and loop.view().samples_per_second == 0.0
        assert swarm.speeds == [7.0, 0.0] and swarm.published[-1] == 0.0
        answers.set()
        wait_until(lambda: loop.step(compute=True).counted, "batch")
        assert swarm.speeds[-1] == swarm.published[-1] > 0.0


def test_a_peer_that_asks_for_no_batch_lacks_no_text(
    run: RunFile, tokenizer: PreTrainedTokenizerFast, documents: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = threading.Event()

    def text() -> Iterator[str]:
        answers.wait()
        yield from documents

    swarm = Swarm()
    with BatchPrefetcher(text(), tokenizer, run, batch_size=4, seed=0) as batches:
        loop = loop_with(run, batches, SmallDevice(room=4), swarm)
        assert not loop.step(compute=True).messages, "told at once"
        monkeypatch.setattr(training_loop, "LACKING", 0.0)
        assert not loop.step(compute=False).messages
        assert swarm.speeds == [7.0]
        answers.set()


def test_a_volunteer_is_told_why_it_rests() -> None:
    assert role_line(trains=True, share=0.0, upload=2.0).endswith("others average them.")
    assert "25% of the averaging" in role_line(trains=True, share=0.25, upload=2.0)
    assert "Your internet connection (2 Mbit/s upload) is too slow" in role_line(trains=False, share=0.0, upload=2.0)
    assert "only averages: 80% of the whole run's averaging" in role_line(trains=False, share=0.8, upload=None)
