"""Finding the group of the next round before the batch is full.

What this changes in hivemind's `Optimizer`:
- a search that found nobody is simply begun again, and none is made while a round is open.
- a group must have most of those who are at this global step, and all learn how fast its members compute.
- peers may meet in small groups (`moshpit/`); who found nobody for the first round begins with the second.
"""

from hivemind.averaging.control import AveragingStage

from swarm import clock
from swarm.run_file import RunFile
from trainer.averaging.following import StateFollower
from trainer.averaging.moshpit.rounds import GridControl
from trainer.averaging.moshpit.swarm_grid import SwarmGrid
from trainer.averaging.search import GROUP_PATIENCE


class Meeting(StateFollower):
    """The part of `SwarmOptimizer` that has to do with whom to average with."""

    run: RunFile
    _round_open = False  # a round has begun, and whether the step is taken is not known yet
    _last_group = 0  # peers in it; 0 once a search has begun since

    @property
    def computes(self) -> bool:
        """Whether computing gradients is among what this peer does for the swarm at this time."""
        raise NotImplementedError

    @property
    def samples_gathered(self) -> int:
        """This peer's samples that wait for the next round."""
        return int(self.grad_averager.local_samples_accumulated)

    def _goes_without_group(self) -> bool:
        """Alone, or on a grid where later rounds will have one."""
        return self._later_rounds() is not None or not (self.tracker.others or self.tracker.company.is_gone)

    def _later_rounds(self) -> GridControl | None:
        """What is left of this global step for a peer that found nobody for the first round."""
        if self._grid is None or self._is_looking_for_group():
            return None
        return self._grid.later_rounds(self.local_epoch)

    def _near(self, step: int) -> list[bytes]:
        return self.tracker.company.near(step, clock.now())

    def _maybe_schedule_gradient_averaging(self) -> None:
        soon = self.tracker.estimated_next_update_time - clock.now() <= self.matchmaking_time
        # while a round is open, this search would wait for its end, and be for the wrong step if the round fails
        if soon and self.tracker.others and not self._round_open and not self._is_looking_for_group():
            self._look_for_group()

    def _is_looking_for_group(self) -> bool:
        control = self.scheduled_grads
        return control is not None and not control.triggered and not control.done()

    def _has_group(self) -> bool:
        control = self.scheduled_grads if self._is_looking_for_group() else None
        return control is not None and control.stage == AveragingStage.AWAITING_TRIGGER

    def _look_for_group(self) -> None:
        if self._grid is not None and self._looks_on_grid(self._grid):
            return
        # right after a round many do not tell yet that they are at the next step
        seen, self._last_group = max(self.tracker.companions + 1, self._last_group), 0
        self.scheduled_grads = self.grad_averager.schedule_step(
            gather=self.local_epoch,
            seen=seen,
            speed=self.tracker.own_speed,
            trains=self.computes or self.samples_gathered > 0,
            timeout=GROUP_PATIENCE * self.matchmaking_time,
        )

    def _looks_on_grid(self, grid: SwarmGrid) -> bool:
        """Begin a search there, unless all peers are one group."""
        step, averager = self.local_epoch, self.grad_averager
        if grid.has_missed(self.scheduled_grads, step) and self.tracker.ready_to_update_epoch:
            return True  # the first round is over
        control = grid.schedule(averager, step, "gradients", averager.schedule_step, quorum=True)
        self.scheduled_grads = control or self.scheduled_grads
        return control is not None
