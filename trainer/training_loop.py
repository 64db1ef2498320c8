"""The training loop: one step at a time computes a batch or waits, and records what the swarm has committed."""

import queue
import time
from dataclasses import dataclass

from averaging.log.credit import session_id
from averaging.log.header import Entry, HeaderKind
from averaging.optimizer import CollaborativeOptimizer
from swarm.errors import is_memory_full
from swarm.run_file import RunFile
from trainer.console.loop_messages import LoopMessages, batch_size_line, pause_line, text_line
from trainer.console.status import status_of
from trainer.console.view import View
from trainer.credit_tracker import CreditTracker
from trainer.data import Batch, BatchPrefetcher
from trainer.experts import ReachedExperts
from trainer.micro_batch import Fitting
from trainer.pausing.decision import Pause
from trainer.pausing.watch import PauseWatch
from trainer.precision import empty_cache
from trainer.session_publisher import SessionPublisher
from trainer.training_step import BatchResult, Interrupted, TrainingStep

SMOOTHING = 0.9  # of the speed shown, per batch
PAUSE = 0.05  # seconds that a step without a batch waits, at most
LACKING = 20.0  # seconds without text after which the volunteer is told


@dataclass(frozen=True)
class StepOutcome:
    """What one step of the loop did."""

    counted: bool  # a batch was computed whose gradient goes into an update of the swarm
    messages: tuple[str, ...]  # for the volunteer


class TrainingLoop:
    """Trains one process's model with the swarm; for one thread.

    Args:
        speed: samples a second that this peer computes, as first measured.
        committed: headers that were applied; the optimizer puts them there from another thread.
        pauses: when not to compute.
        experts: of the run, if it has any; shown in the console.
    """

    def __init__(
        self,
        run: RunFile,
        name: str,
        training_step: TrainingStep,
        optimizer: CollaborativeOptimizer,
        batches: BatchPrefetcher,
        speed: float,
        credit: CreditTracker,
        committed: "queue.SimpleQueue[Entry]",
        session: SessionPublisher,
        pauses: PauseWatch,
        experts: ReachedExperts | None = None,
    ):
        self._run, self._name, self._optimizer, self._batches = run, name, optimizer, batches
        self._training_step, self._speed, self._session = training_step, speed, session
        self._credit, self._committed, self._experts = credit, committed, experts
        self._pauses = pauses
        self._pause: Pause | None = None  # as the volunteer and the others were last told
        self._fitting = Fitting(batches.batch_size)
        self._awaits_text_since: float | None = None  # monotonic seconds
        self._lacks_text = False  # as the volunteer and the others were last told
        self._messages = LoopMessages()
        self._began = self._computed_at = time.monotonic()
        optimizer.computes_at(speed)

    def is_done(self) -> bool:
        """Whether the run's last global step has been taken."""
        return self._optimizer.step >= self._run.optimizer.total_steps

    def step(self, *, compute: bool) -> StepOutcome:
        """Compute a batch if one is needed and `compute`, or wait a moment; then publish this session's record."""
        counted, messages = False, self._pausing()
        if not compute or self._pause is not None or not self._optimizer.trains:
            self._optimizer.await_state(PAUSE)
            self._computed_at = time.monotonic()
            self._stop_awaiting_text()
        elif not self._pauses.duty.may_begin() or time.monotonic() < self._fitting.try_at:
            time.sleep(PAUSE)
            self._stop_awaiting_text()
        elif (batch := self._next_batch()) is not None and (result := self._compute(batch)) is not None:
            counted = result.counts
            messages += self._messages.of_batch(result)
        messages += self._record_headers()
        messages += self._changes_of_text()
        messages += self._changes_of_batch_size()
        messages += self._messages.of_swarm(self._optimizer)
        self._session.publish(self._session_id, self._shown_step, self._speed_now, self._data_wait_fraction, self._told)
        return StepOutcome(counted, tuple(messages))

    def _pausing(self) -> list[str]:
        """Begin or end a pause, and tell of it. Plans give a peer that says that it computes nothing little to send."""
        before, self._pause = self._pause, self._pauses.pause
        if self._pause == before:
            return []
        self._optimizer.computes_at(self._speed_now)
        return [pause_line(self._pause)]

    def _next_batch(self) -> Batch | None:
        """The next batch; None: it is not ready yet, as where the text comes from does not answer."""
        batch, now = self._batches.within(PAUSE), time.monotonic()
        if batch is None:
            self._awaits_text_since = self._awaits_text_since or now
            return None
        if self._lacks_text:
            self._computed_at = now
        self._awaits_text_since = None
        return batch

    def _stop_awaiting_text(self) -> None:
        """No batch is asked for now; what the volunteer was told of stands until text has arrived."""
        if not self._lacks_text:
            self._awaits_text_since = None

    def _compute(self, batch: Batch) -> BatchResult | None:
        """Compute a batch; None: it was given up to pause or leave, or has not fitted into memory."""
        result = None
        try:
            result = self._training_step(batch)
        except Interrupted:
            return None
        except RuntimeError as error:
            if not is_memory_full(error):
                raise  # else what it holds is free only when it is forgotten
        if result is None:
            empty_cache(self._training_step.device)
            self._fitting.was_full(self._training_step.device, time.monotonic())
            return None
        now = time.monotonic()
        self._fitting.has_fitted(now)
        self._pauses.duty.computed(result.seconds)
        self._speed = SMOOTHING * self._speed + (1 - SMOOTHING) * result.samples / max(now - self._computed_at, 1e-6)
        self._computed_at = now
        self._optimizer.computes_at(self._speed)
        return result

    def _record_headers(self) -> list[str]:
        messages = []
        is_behind = self._optimizer.progress.is_behind
        while not self._committed.empty():
            entry = self._committed.get()
            self._credit.record(entry, self._optimizer.sessions, time.monotonic(), is_replayed=is_behind)
            if entry.header.kind is HeaderKind.ROLLBACK:
                messages.append(self._messages.of_rollback(entry.header.step))
        return messages

    def _changes_of_batch_size(self) -> list[str]:
        before, size = self._batches.batch_size, self._fitting.size
        if size == before:
            return []
        self._batches.set_batch_size(size)
        return [batch_size_line(size, before)]

    def _changes_of_text(self) -> list[str]:
        since = self._awaits_text_since
        lacks = since is not None and time.monotonic() >= since + LACKING
        if lacks == self._lacks_text:
            return []
        self._lacks_text = lacks
        if lacks:
            self._optimizer.computes_at(0.0)
        return [text_line(LACKING if lacks else None, self._batches.trouble)]

    def can_finish_step(self, seconds: float) -> bool:
        """Whether what this peer has gathered will be in a global step within so many seconds.

        A peer that has to leave asks repeatedly, and computes nothing meanwhile.
        """
        progress = self._optimizer.progress
        if seconds <= 0 or not progress.own or progress.is_behind:
            return False
        return progress.in_round or may_begin_within(
            seconds,
            progress.gathered,
            self._run.averaging.target_batch_size,
            time.monotonic() - (self._credit.stepped_at or self._began),
        )

    def leave(self, *, pausing: bool) -> None:
        """Say goodbye to the other peers, and publish that this session is over, or that it pauses for long."""
        self._optimizer.shutdown()
        self._record_headers()
        self._session.leave(self._session_id, self._shown_step, self._data_wait_fraction, self._told if pausing else "")

    def view(self) -> View:
        """What the console shows now."""
        progress, credit, step = self._optimizer.progress, self._credit, self._shown_step
        target = self._run.averaging.target_batch_size
        return View(
            run=self._run.name,
            name=self._name,
            step=step,
            total_steps=self._run.optimizer.total_steps,
            step_samples=min(progress.gathered, target),
            target_batch_size=target,
            peers=progress.peers,
            own_samples=credit.samples,
            swarm_samples=credit.swarm_samples(step, target) + progress.gathered,
            loss=credit.loss,
            samples_per_second=self._speed_now,
            swarm_samples_per_second=credit.swarm_samples_per_second,
            averaging_rounds=credit.rounds,
            averaging_failures=credit.failures,
            data_wait_fraction=self._data_wait_fraction,
            client_mode=self._session.client_mode,
            status=status_of(progress, self._pause, has_state=self._optimizer.step >= 0, lacks_text=self._lacks_text),
            experts=None if self._experts is None else self._experts.answering,
        )

    @property
    def _speed_now(self) -> float:
        return 0.0 if self._pause is not None or self._lacks_text else self._speed

    @property
    def _told(self) -> str:
        """Of a pause, to the others."""
        return "" if self._pause is None else self._pause.cause.told

    @property
    def _session_id(self) -> str:
        return session_id(self._optimizer.session)

    @property
    def _shown_step(self) -> int:
        return max(0, self._optimizer.step)

    @property
    def _data_wait_fraction(self) -> float:
        """Fraction of the time that was spent waiting for data."""
        return self._batches.wait_seconds / max(time.monotonic() - self._began, 1e-6)


def may_begin_within(seconds: float, gathered: int, target: int, since: float) -> bool:
    """Whether a round may begin within so many seconds, `since` seconds after the one before.

    Args:
        gathered: samples of all peers, of the `target` that a round needs.
    """
    return gathered * (since + seconds) >= target * since
