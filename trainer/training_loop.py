"""The training loop: one step at a time computes a batch or waits, and records what the swarm has committed."""

import queue
import time
from dataclasses import dataclass

from averaging.load_balancing.plan import explanation
from averaging.log.credit import session_id
from averaging.log.header import Entry, HeaderKind
from averaging.optimizer import CollaborativeOptimizer
from averaging.protocol.buffers import REMEMBERED
from swarm.errors import is_memory_full
from swarm.language import _
from swarm.run_file import RunFile
from trainer.console.status import status_of
from trainer.console.view import View
from trainer.credit_tracker import CreditTracker
from trainer.data import Batch, BatchPrefetcher
from trainer.experts import ReachedExperts
from trainer.micro_batch import Fitting
from trainer.pausing.decision import Pause
from trainer.pausing.watch import LEAVES_WITHIN, PauseWatch
from trainer.precision import empty_cache
from trainer.session_publisher import SessionPublisher
from trainer.training_step import BatchResult, Interrupted, TrainingStep

SMOOTHING = 0.9  # of the speed shown, per batch
PAUSE = 0.05  # seconds that a step without a batch waits, at most
LACKING = 20.0  # seconds without text after which the volunteer is told
USUAL_OVERFLOWS = 20  # in a row; the loss scale begins high and is halved at each
UNCOUNTED = 5  # usable batches in a row that came too late, after which the volunteer is told
OFTEN = 3  # steps without a peer's gradients, of the last few, of which its volunteer is told


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
        self._rests = self._is_late = False  # as the volunteer was last told
        self._fitting = Fitting(batches.batch_size)
        self._overflows = 0  # in a row
        self._uncounted = 0  # usable batches in a row
        self._awaits_text_since: float | None = None  # monotonic seconds
        self._lacks_text = False  # as the volunteer and the others were last told
        self._states_told = 0  # states loaded of which the volunteer was told
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
            self._overflows = self._overflows + 1 if result.is_overflow else 0
            if not result.is_finite and (not result.is_overflow or self._overflows > USUAL_OVERFLOWS):
                skipped = _(
                    "One batch was skipped because its result was not a usable number (loss {loss}). If this repeats, "
                    "tell the organizer."
                )
                messages.append(skipped.format(loss=f"{result.loss:.3g}"))
            self._uncounted = 0 if counted else self._uncounted + result.is_finite
            if result.is_finite and self._uncounted == UNCOUNTED:
                messages.append(
                    _(
                        "Your last {n} results came too late to count: each took {seconds} s, and by then the others "
                        "were two global steps further. Only a faster device helps, or fewer samples at a time "
                        "(--micro-batch)."
                    ).format(n=UNCOUNTED, seconds=f"{result.seconds:.1f}")
                )
        messages += self._record_headers()
        messages += self._changes()
        self._session.publish(self._session_id, self._shown_step, self._speed_now, self._data_wait_fraction, self._told)
        return StepOutcome(counted, tuple(messages))

    def _pausing(self) -> list[str]:
        """Begin or end a pause, and tell of it. Plans give a peer that says that it computes nothing little to send."""
        before, self._pause = self._pause, self._pauses.pause
        if self._pause == before:
            return []
        if self._pause is None:
            self._optimizer.computes_at(self._speed_now)
            return [_("Training again.")]
        self._optimizer.computes_at(0.0)
        told = (
            _("Pausing: {reason}. The work done so far counts towards the next global step.")
            if self._pause.cause.stays
            else _(
                "Pausing: {reason}. The work done so far counts towards the next global step, if that begins within "
                "{n} s."
            )
        )
        return [told.format(reason=self._pause.reason, n=f"{LEAVES_WITHIN:.0f}")]

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
                self._states_told += 1
                told = _("The run goes back to an older state of the model, which is now global step {step}.")
                messages.append(told.format(step=f"{entry.header.step:,}"))
        return messages

    def _changes(self) -> list[str]:
        """What has changed since the step before: whether this peer computes, and a state that it has loaded."""
        messages, progress = self._changes_of_text(), self._optimizer.progress
        if (size := self._fitting.size) != self._batches.batch_size:
            told = (
                _("The memory is full: computing {n} samples at a time.")
                if size < self._batches.batch_size
                else _("There may be memory again: computing {n} samples at a time.")
            )
            messages.append(told.format(n=size))
            self._batches.set_batch_size(size)
        if progress.rests != self._rests:
            self._rests = progress.rests
            messages.append(explanation(trains=not progress.rests, share=progress.share, upload=self._optimizer.upload))
        if (change := told_of_lateness(progress.late, was_told=self._is_late)) is not None:
            self._is_late = not self._is_late
            messages.append(change)
        loaded = self._optimizer.states_loaded
        if loaded > self._states_told and not progress.is_behind and not progress.is_applying:
            told = (
                _("Others were ahead: loaded the state of global step {step} from the swarm.")
                if self._states_told
                else _("Loaded the state of global step {step} from the swarm.")
            )
            messages.append(told.format(step=f"{self._optimizer.step:,}"))
            self._states_told = loaded
        return messages

    def _changes_of_text(self) -> list[str]:
        since = self._awaits_text_since
        lacks = since is not None and time.monotonic() >= since + LACKING
        if lacks == self._lacks_text:
            return []
        self._lacks_text = lacks
        if not lacks:
            return [_("The text is there again.")]
        self._optimizer.computes_at(0.0)
        told = _("No text has arrived for {n} s{reason}. This program goes on when it does.")
        reason = self._batches.trouble
        return [told.format(n=f"{LACKING:.0f}", reason=f" ({reason})" if reason else "")]

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


def told_of_lateness(late: int, *, was_told: bool) -> str | None:
    """What a volunteer should know of gradients that others do not wait for; None: nothing new.

    Args:
        late: of the last steps.
    """
    if late >= OFTEN and not was_told:
        return _(
            "In {n} of the last {all} global steps your results arrived too late, so the others now wait less for "
            "them. Is your internet connection slow or busy? Results that arrive in time count again."
        ).format(n=late, all=REMEMBERED)
    if not late and was_told:
        return _("Your results arrive in time again.")
    return None


def may_begin_within(seconds: float, gathered: int, target: int, since: float) -> bool:
    """Whether a round may begin within so many seconds, `since` seconds after the one before.

    Args:
        gathered: samples of all peers, of the `target` that a round needs.
    """
    return gathered * (since + seconds) >= target * since
