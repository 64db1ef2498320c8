"""One batch after the other: forward, backward, hand the gradient over, and keep the books."""

import math
import time

import torch

from swarm.errors import SwarmError
from swarm.run_file import RunFile
from trainer.averaging import SwarmOptimizer
from trainer.console import View
from trainer.data import Batch, Feed
from trainer.micro_batch import Pace
from trainer.model import PretrainingModel
from trainer.session import Session

SMOOTHING = 0.9  # of the speed shown, per batch
ASSISTING = 0.05  # seconds between two looks of a peer that computes nothing
IN_VAIN = 3  # times in a row that a peer takes over a state before it is told that this helps nobody


class Work:
    """What the loop does with a batch, and what there is to tell about it."""

    def __init__(
        self,
        run: RunFile,
        name: str,
        model: PretrainingModel,
        optimizer: SwarmOptimizer,
        session: Session,
        feed: Feed,
        pace: Pace,
        *,
        compile: bool,
    ):
        self.batches = 0  # whose gradients count towards a global step
        self.not_finite = 0  # batches that contributed nothing because their loss or gradient was not a number
        self._messages: list[str] = []
        self._catch_ups, self._states_taken = 0, optimizer.states_taken  # the first since a round has last worked
        self._run, self._name = run, name
        self._model, self._optimizer = model, optimizer
        self._session, self._feed, self._precision = session, feed, pace.precision
        self._forward = torch.compile(model) if compile else model
        self._scaler = pace.precision.scaler()
        self._scaled = torch.optim.SGD(model.parameters(), lr=0.0)  # tells the scaler which gradients; never stepped
        self._speed = pace.samples_per_second
        self._last_round: int | None = None  # number of the round that a leaving peer waits for
        self._started = time.monotonic()
        self._last = self._started

    def compute(self, batch: Batch) -> None:
        """Add the batch to the next global step, unless its gradient is not finite."""
        samples, tokens = batch.samples, batch.tokens
        optimizer = self._optimizer
        self._model.zero_grad(set_to_none=True)
        with self._precision.autocast():
            loss = self._forward(batch.to(self._precision.device)).loss
        self._scaler.scale(loss).backward()
        value = float(loss.detach())
        usable = self._unscaled_gradient_is_finite() and math.isfinite(value)
        step, rounds, had = optimizer.local_epoch, optimizer.rounds_begun, optimizer.samples_gathered
        if usable:
            optimizer.step(samples)
        else:
            self._leave_out(value)
        kept = optimizer.rounds_begun > rounds or optimizer.samples_gathered == had + samples * usable
        if not kept:  # a newer state was taken over, and the samples belonged to the old one
            self._caught_up(step)
        elif usable:
            self._session.contributions.computed(samples, tokens, value)
            self.batches += 1
        if optimizer.rounds_begun > rounds:
            self._session.contributions.round_began(optimizer.rounds_begun)
        now = time.monotonic()
        self._speed = SMOOTHING * self._speed + (1 - SMOOTHING) * samples / max(now - self._last, 1e-6)
        self._last = now

    def assist(self) -> None:
        """Compute nothing for a moment: follow the others, and average for them."""
        optimizer, contributions = self._optimizer, self._session.contributions
        step, rounds, had = optimizer.local_epoch, optimizer.rounds_begun, optimizer.samples_gathered
        if not optimizer.is_full:
            self._speed = 0.0
        time.sleep(ASSISTING)
        optimizer.poll()
        if optimizer.rounds_begun > rounds:
            contributions.round_began(optimizer.rounds_begun)
        elif optimizer.samples_gathered < had:  # computed before it was told to average only
            self._caught_up(step)
        self._last = time.monotonic()

    def _caught_up(self, before: int) -> None:
        """A newer state was taken over, or tried for; what was gathered for global step `before` is gone."""
        self._session.contributions.dropped()
        took = self._optimizer.states_taken > self._states_taken
        self._states_taken = self._optimizer.states_taken
        self._catch_ups += took
        self._messages.append(describe_catch_up(before, self._optimizer.local_epoch, self._catch_ups, took=took))

    def _unscaled_gradient_is_finite(self) -> bool:
        if self._scaler.is_enabled():
            self._scaler.unscale_(self._scaled)
            self._scaler.update()
        gradients = [one.grad for one in self._model.parameters() if one.grad is not None]
        return bool(torch.isfinite(torch.stack(torch._foreach_norm(gradients)).sum()))

    def _leave_out(self, loss: float) -> None:
        """A batch contributes nothing; if it is the parameters that are not finite, others have better ones."""
        self.not_finite += 1
        self._messages.append(f"A batch was left out: its loss or gradient is not finite (loss {loss:.3g}).")
        self._optimizer.poll()
        if all(torch.isfinite(parameter).all() for parameter in self._model.parameters()):
            return
        if not self._optimizer.load_state_from_peers():
            raise SwarmError(
                "the parameters are not finite and no peer offers better ones; "
                "start again, or start the coordinator again from its newest checkpoint"
            )

    def is_done(self) -> bool:
        """Whether the run's last global step has been taken; waits for it if it is being averaged."""
        total = self._run.optimizer.total_steps
        if self._optimizer.local_epoch >= total:
            self._optimizer.finish_round()
            self._messages += self.settle()
        return self._optimizer.local_epoch >= total  # a round that failed has gone back by one

    def can_finish_step(self, seconds: float) -> bool:
        """Whether the samples of this peer that wait for a global step now will be in one, so many seconds from now.

        Asked again and again by a peer that has to leave; samples that it computes meanwhile do not count.
        """
        optimizer = self._optimizer
        if self._last_round is None:
            self._last_round = optimizer.rounds_begun + (optimizer.samples_gathered > 0)
        if seconds <= 0 or self._session.contributions.last_round >= self._last_round:
            return False
        if optimizer.rounds_begun >= self._last_round:  # it is being averaged
            return True
        return optimizer.tracker.may_begin_within(seconds)

    def settle(self) -> list[str]:
        """Take in how rounds ended; returns what a volunteer should hear."""
        if self._take_in_rounds():
            self.publish(urgent=True)
        messages, self._messages = self._messages, []
        return messages

    def _take_in_rounds(self) -> bool:
        ended = self._optimizer.ended_rounds()
        for report in ended:
            self._session.contributions.round_ended(report)
            if report.news:
                self._messages.append(f"From now on: {report.news}.")
            if report.problem:
                self._messages.append(report.describe_failure())
            else:
                self._catch_ups = 0
        return bool(ended)

    @property
    def data_wait_fraction(self) -> float:
        """Fraction of the time that was spent waiting for data."""
        return self._feed.wait_seconds / max(time.monotonic() - self._started, 1e-6)

    def publish(self, *, urgent: bool = False) -> None:
        """Tell the swarm what this session has done."""
        step = self._optimizer.local_epoch
        self._session.publish(step, self._speed, self.data_wait_fraction, urgent=urgent)

    def leave(self) -> None:
        """Tell the swarm that this session is over, and what came of the round that it was in."""
        self._say_goodbye()
        self._optimizer.linger()
        if self._take_in_rounds():
            self._say_goodbye()

    def _say_goodbye(self) -> None:
        self._session.leave(self._optimizer.local_epoch, self.data_wait_fraction)

    def view(self) -> View:
        """What the console shows now."""
        tracker, contributions = self._optimizer.tracker, self._session.contributions
        progress = tracker.global_progress
        target = self._run.averaging.target_batch_size
        return View(
            run=self._run.name,
            name=self._name,
            step=self._optimizer.local_epoch,
            total_steps=self._run.optimizer.total_steps,
            step_samples=min(progress.samples_accumulated, target),
            target_batch_size=target,
            peers=tracker.others + 1,
            own_samples=contributions.samples,
            swarm_samples=progress.epoch * target + progress.samples_accumulated,
            loss=contributions.loss,
            samples_per_second=self._speed,
            swarm_samples_per_second=tracker.swarm_samples_per_second,
            averaging_rounds=contributions.rounds,
            averaging_failures=contributions.failures,
            data_wait_fraction=self.data_wait_fraction,
            client_mode=self._optimizer.client_mode,
            status=status_of(self._optimizer),
        )


def status_of(optimizer: SwarmOptimizer) -> str:
    """What a peer does, in a few words."""
    tracker = optimizer.tracker
    if tracker.others:
        if optimizer.is_full:
            return "enough samples for this global step; it begins when the others are ready"
        return "training" if optimizer.trains else "averaging for the others"
    return "nobody answers; waiting for the others" if tracker.company.is_gone else "training alone until others join"


def describe_catch_up(before: int, step: int, times: int, *, took: bool) -> str:
    """One line for people, after a peer has looked for a state of others; it is at `step` now.

    Args:
        before: the global step that it was at.
        times: how often a state was taken over since a round has last worked.
        took: whether one was taken over now.
    """
    if not took:
        return "Others say that they are ahead, but nobody has a newer state to show for it; training goes on."
    why = "Others were ahead" if step != before else "This peer's parameters were not those of the others"
    said = f"{why}: took over the state of global step {step:,}."
    if times < IN_VAIN:
        return said
    return (
        f"{said} {times} times in a row now without a round that worked, so nothing that you compute counts: this "
        "machine or its line may be too slow for this run, or a firewall in the way. Ctrl-C ends it."
    )
