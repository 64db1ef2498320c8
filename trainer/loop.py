"""What a trainer does between two looks at the console: a batch, or a pause, and keeping its session record."""

import queue
import time

from averaging.load_balancing.explanation import explanation
from averaging.log.credit import session_id
from averaging.log.header import Entry, HeaderKind
from averaging.optimizer import CollaborativeOptimizer, Progress
from swarm.run_file import RunFile
from trainer.console.view import View
from trainer.credit import Credited
from trainer.data import Feed
from trainer.micro_batch import Pace
from trainer.model import PretrainingModel
from trainer.session import Session
from trainer.step import TrainingStep

SMOOTHING = 0.9  # of the speed shown, per batch
PAUSE = 0.05  # seconds between two looks of a trainer that has nothing to compute


class Training:
    """Of one process; for one thread.

    Args:
        committed: headers that were applied, which the optimizer puts there.
    """

    def __init__(
        self,
        run: RunFile,
        name: str,
        model: PretrainingModel,
        optimizer: CollaborativeOptimizer,
        session: Session,
        credited: Credited,
        committed: "queue.SimpleQueue[Entry]",
        feed: Feed,
        pace: Pace,
        *,
        compile: bool,
    ):
        self.batches = 0  # that count
        self._run, self._name, self._optimizer, self._session, self._feed = run, name, optimizer, session, feed
        self._credited, self._committed = credited, committed
        self._step = TrainingStep(model, optimizer, pace.precision, compile=compile)
        self._speed = pace.samples_per_second
        self._messages: list[str] = []
        self._rests = False  # as this peer's volunteer knows
        optimizer.computes_at(self._speed)
        self._loads = 0  # of states that were told of
        self._began = self._computed_at = time.monotonic()

    def is_done(self) -> bool:
        """Whether the run's last global step has been taken."""
        return self._optimizer.step >= self._run.optimizer.total_steps

    def go_on(self, *, computes: bool) -> None:
        """Compute a batch if one is needed and `computes`, or wait a moment; then tell the swarm."""
        if computes and self._optimizer.trains:
            self._compute()
        else:
            time.sleep(PAUSE)
            self._computed_at = time.monotonic()
        self._take_in_headers()
        self._publish()

    def _compute(self) -> None:
        result = self._step(self._feed.next())
        self.batches += result.counts
        if not result.is_finite:
            self._messages.append(f"A batch was left out: its loss or gradient is not finite ({result.loss:.3g}).")
        now = time.monotonic()
        self._speed = SMOOTHING * self._speed + (1 - SMOOTHING) * result.samples / max(now - self._computed_at, 1e-6)
        self._computed_at = now
        self._optimizer.computes_at(self._speed)

    def _take_in_headers(self) -> None:
        is_behind = self._optimizer.progress.is_behind
        while not self._committed.empty():
            entry = self._committed.get()
            self._credited.take_in(entry, self._optimizer.sessions, time.monotonic(), is_replayed=is_behind)
            if entry.header.kind is HeaderKind.ROLLBACK:
                self._loads += 1  # which is said here
                step = entry.header.step
                self._messages.append(f"The swarm goes back to an older state of the model, as global step {step:,}.")

    def can_finish_step(self, seconds: float) -> bool:
        """Whether what this peer has gathered will be in a global step, so many seconds from now.

        A peer that has to leave asks again and again, and computes nothing meanwhile.
        """
        progress = self._optimizer.progress
        if seconds <= 0 or not progress.own or progress.is_behind:
            return False
        return progress.in_round or may_begin_within(
            seconds,
            progress.gathered,
            self._run.averaging.target_batch_size,
            time.monotonic() - (self._credited.stepped_at or self._began),
        )

    def news(self) -> list[str]:
        """What a volunteer should hear, once."""
        messages, self._messages = self._messages, []
        progress = self._optimizer.progress
        if progress.rests != self._rests:
            self._rests = progress.rests
            messages.append(explanation(trains=not progress.rests, share=progress.share, upload=self._optimizer.upload))
        loads = self._optimizer.states_loaded
        if loads > self._loads and not progress.is_behind:  # it has taken the steps since, too
            why = "Others were ahead: took" if self._loads else "Took"
            messages.append(f"{why} over the state of global step {self._optimizer.step:,} from the swarm.")
            self._loads = loads
        return messages

    def leave(self) -> None:
        """Say goodbye to the others, and that this session is over."""
        self._optimizer.shutdown()
        self._take_in_headers()
        self._session.leave(self._shown_step, self._data_wait_fraction)

    def _publish(self) -> None:
        self._session.id = session_id(self._optimizer.session)
        self._session.publish(self._shown_step, self._speed, self._data_wait_fraction)

    @property
    def _shown_step(self) -> int:
        return max(0, self._optimizer.step)

    @property
    def _data_wait_fraction(self) -> float:
        """Fraction of the time that was spent waiting for data."""
        return self._feed.wait_seconds / max(time.monotonic() - self._began, 1e-6)

    def view(self) -> View:
        """What the console shows now."""
        progress, credited, step = self._optimizer.progress, self._credited, self._shown_step
        target = self._run.averaging.target_batch_size
        return View(
            run=self._run.name,
            name=self._name,
            step=step,
            total_steps=self._run.optimizer.total_steps,
            step_samples=min(progress.gathered, target),
            target_batch_size=target,
            peers=progress.peers,
            own_samples=credited.samples,
            swarm_samples=step * target + progress.gathered,
            loss=credited.loss,
            samples_per_second=self._speed,
            swarm_samples_per_second=credited.swarm_samples_per_second,
            averaging_rounds=credited.rounds,
            averaging_failures=credited.failures,
            data_wait_fraction=self._data_wait_fraction,
            client_mode=self._session.client_mode,
            status=status_of(progress, has_state=self._optimizer.step >= 0),
        )


def may_begin_within(seconds: float, gathered: int, target: int, since: float) -> bool:
    """Whether a round may begin so many seconds from now, `since` seconds after the one before.

    Args:
        gathered: samples of all peers, of the `target` that a round needs.
    """
    return gathered * (since + seconds) >= target * since


def status_of(progress: Progress, *, has_state: bool) -> str:
    """What a peer does, in a few words."""
    if not has_state:
        return "loading the state of the run" if progress.peers > 1 else "waiting for the others"
    if progress.is_behind:
        return "catching up with the others"
    if progress.in_round:
        return "averaging"
    if progress.rests:
        return "averaging for the others" if progress.share else "following the others"
    return "training" if progress.peers > 1 else "training alone until others join"
