"""Having the swarm's newest state: taking it over from others when they are ahead, and going on from a saved one.

What this changes in hivemind's `Optimizer`:
- downloading the state ends after a while, whether it worked or not, and never fetches gradients.
- a peer whose parameters are far from those of the others takes over a state, too (`copies.py`).
- a peer that is behind looks for no group any more before it downloads (`search.py`). Upstream looks on for as long as
  a round may last, while the others take steps; then it is late for the next one again.
"""

import time
from collections.abc import Callable
from typing import Any

import torch
from hivemind.averaging.control import StepControl
from hivemind.optim.optimizer import Optimizer

from swarm import clock
from swarm.gate import Gate
from trainer.averaging.gradients import SwarmGradientAverager
from trainer.averaging.moshpit.rounds import GridControl
from trainer.averaging.moshpit.swarm_grid import SwarmGrid
from trainer.averaging.progress import SwarmProgress
from trainer.averaging.rounds import RoundFailed
from trainer.averaging.state import SwarmStateAverager, set_steps

LOAD_RETRY = 0.5  # seconds between two attempts to get the state
CATCH_UP_PATIENCE = 10.0  # seconds in which a download of a newer step begins that somebody claims to have
DOUBT = 20.0  # seconds in which no newer step is believed in when nobody had a state for it
DISPUTED = 5.0  # the same when most others are not there either: all of them go on together


class StateFollower(Optimizer):
    """The part of `SwarmOptimizer` that has to do with whole states."""

    scheduled_grads: StepControl | GridControl | None
    tracker: SwarmProgress
    state_averager: SwarmStateAverager
    grad_averager: SwarmGradientAverager
    gate: Gate | None
    _grid: SwarmGrid | None  # None: all peers are one group
    hurries = False  # this peer is about to leave: it takes over nothing new
    states_taken = 0  # from others

    def adopt(self, step: int, optimizer_state: dict[str, Any]) -> None:
        """Go on from a saved state: the optimizer's and the global step; the parameters are in place already."""
        self.state_averager.optimizer.load_state_dict(optimizer_state)
        set_steps(self.state_averager.optimizer, step)
        self.state_averager.copies.forget()
        self.state_averager.local_epoch = step
        self.state_averager._update_scheduler()
        self.tracker.report_local_progress(step, samples_accumulated=0)
        self.tracker.global_progress.epoch = step
        if not self.client_mode:
            self.state_averager.state_sharing_priority = step

    def go_on_from(
        self, choose_step: Callable[[int], int], load_parameters: Callable[[], None], optimizer_state: dict[str, Any]
    ) -> int:
        """Go on from another state in the middle of a run; what was gathered so far is dropped.

        Args:
            choose_step: is given the newest global step of the swarm, and says which one the state shall have.
            load_parameters: puts the parameters in place.

        Raises:
            RoundFailed: a round does not end; nothing was changed.
        """
        self._leave_round()
        averager = self.state_averager
        if averager.pending_updates:
            raise RoundFailed("a round of averaging does not end")
        step = choose_step(max(self.local_epoch, self.tracker.global_epoch))
        averager.settled.clear()  # nobody is given half of it
        try:
            load_parameters()
            held = [parameter for group in averager.optimizer.param_groups for parameter in group["params"]]
            with averager.lock_optimizer, averager.lock_averaged_tensors, torch.no_grad():
                for main, own in zip(averager.main_parameters, held, strict=True):
                    own.copy_(main)
            if not averager.reuse_tensors:
                averager._load_local_tensors_into_averager_()
            self.grad_averager.reset_accumulated_grads_()
            self.adopt(step, optimizer_state)
        finally:
            averager.settled.set()
        return step

    def load_state_from_peers(self, **kwargs: Any) -> bool:
        """Take over the newest state of the swarm (`downloads.py`); samples gathered so far are dropped.

        Returns whether a state was taken. It is not when nobody is there, or nobody offers one that is
        new enough in time (a download that has begun may take longer); then this peer goes on from what it has.
        """
        self._leave_round()
        wanted = self.tracker.global_epoch
        disputed = self._is_disputed(wanted)
        patience = self.averaging_timeout if wanted <= self.local_epoch else CATCH_UP_PATIENCE
        if disputed:
            patience = LOAD_RETRY
        deadline = time.monotonic() + patience
        with self.tracker.pause_updates():
            if wanted < self.local_epoch:  # the swarm started again from an older state
                self.state_averager.local_epoch = wanted
            loaded = False
            while self.tracker.others and not self.hurries and time.monotonic() < deadline:
                loaded = self.state_averager.load_state_from_peers(
                    newest=wanted,
                    disputed=disputed,
                    believes=self.tracker.believes,
                    timeout=self.load_state_timeout,
                )
                self.states_taken += loaded
                if loaded and self.local_epoch >= wanted:
                    break
                time.sleep(LOAD_RETRY)
            if self.local_epoch < wanted:
                self.tracker.doubt_newer_steps(DISPUTED if disputed else DOUBT)
            self.state_averager.copies.forget()  # if there was no state, the next round tells again
            self.grad_averager.reset_accumulated_grads_()
            self.tracker.report_local_progress(self.local_epoch, samples_accumulated=0)
            if not self.client_mode:
                self.state_averager.state_sharing_priority = self.local_epoch
        return loaded

    def _is_disputed(self, step: int) -> bool:
        """Whether one peer's word for the next step may be a lie. In small groups some are often ahead of most."""
        return self.gate is not None and self._grid is None and self.tracker.company.disputes(step, clock.now())

    def _leave_round(self) -> None:
        """Have no part in the next round, and be done with the last one."""
        for averager in (self.grad_averager, self.state_averager):
            averager.stop_looking()
        if self.scheduled_grads is not None and not self.scheduled_grads.done():
            if isinstance(self.scheduled_grads, GridControl):
                self.scheduled_grads.tag_along()
            self._tag_along_with_zero_weight(self.scheduled_grads)
        self.scheduled_grads = None
        self.finish_round()

    def finish_round(self) -> None:
        """Wait until the step that was begun is taken, and use its parameters."""
        self.state_averager.step(wait_for_delayed_updates=True)

    def _take_over_newer_state(self) -> bool:
        self.state_averager.step(apply_delayed_updates=True)
        if not self.client_mode and self.state_averager.state_sharing_priority != self.local_epoch:
            self.state_averager.state_sharing_priority = self.local_epoch  # a round failed, and this peer went back
        if not self._should_load_state_from_peers():
            return False
        self.load_state_from_peers()
        return True

    def _should_load_state_from_peers(self) -> bool:
        """Others have taken a step without this peer, or the swarm that it follows went on from an older state.

        Or its parameters are not those of the others.
        """
        behind = self.tracker.global_epoch - self.local_epoch
        return behind > 0 or (behind < 0 and self.client_mode) or self.state_averager.copies.is_off
