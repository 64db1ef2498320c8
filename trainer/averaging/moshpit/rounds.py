"""The rounds of a global step in small groups, one after the other (`grid.py`, `sums.py`; Moshpit SGD, algorithm 1).

To hivemind all of them are one round: `GridControl` stands where the control of the only round would. Peers find
each other for the first one as they would in one group; the others follow at once. A round that does not work costs a
peer no more than that round: it goes on with the mean that it has, as in the paper. If none works there is no result.
"""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from hivemind.averaging.control import AveragingStage, StepControl
from hivemind.utils import get_logger

from swarm import clock
from trainer.averaging.groups import Group
from trainer.averaging.moshpit.grid import Cell
from trainer.averaging.moshpit.keys import indices, next_key
from trainer.averaging.moshpit.sums import LIGHTEST
from trainer.averaging.rounds import reason

logger = get_logger(__name__)


@dataclass(frozen=True)
class Beginning:
    """What one peer knows of the rounds of a global step before the first one."""

    step: int
    cell: Cell  # in the first round
    members: int  # peers in it
    rounds: int
    size: int  # target size of a group
    is_full: bool  # there are as many peers as a full grid has
    own: bytes  # this peer's id
    gathering: float  # seconds for which a group of a later round waits for more members
    patience: float  # seconds for which a peer waits for such a group, beyond those

    def next_cell(self, cell: Cell, group: Group) -> Cell:
        """Where to go from a cell, after its group has averaged or failed to."""
        here = [peer.to_bytes() for peer in group]
        if group.group_id and self.own in here:
            index = indices(group.group_id, len(here), self.size)[here.index(self.own)]
        else:
            index = indices(self.own + bytes([cell.round]), 1, self.size)[0]
        full = self.size if self.is_full else None
        return Cell(cell.round + 1, next_key(cell.key, index, self.size), self.gathering, full)


class GridControl:
    """Controls the rounds of one global step, as hivemind's `StepControl` does one round."""

    def __init__(self, beginning: Beginning, first: StepControl | None, begin_round: Callable[..., StepControl]):
        """Nothing is averaged yet.

        Args:
            beginning: of this global step.
            first: controls the first round; None: this peer found nobody for it, and begins with the second.
            begin_round: begins a later one, as `StepwiseAverager.step` does.
        """
        self.step = beginning.step
        self._beginning, self._begin_round = beginning, begin_round
        self._first, self._current = first, first
        self._weight = 1.0
        self._begun = self._left = self._tags_along = False
        self._running = threading.Lock()
        self._result: Group | None = None

    def without_first_round(self) -> "GridControl":
        """The other rounds, for a peer that found no group for the first one."""
        return GridControl(self._beginning, None, self._begin_round)

    @property
    def weight(self) -> float:
        """What this peer weighs in the first round: with no samples, next to nothing."""
        return self._weight

    @weight.setter
    def weight(self, weight: float) -> None:
        self._weight = max(weight, LIGHTEST)
        if self._first is not None:
            self._first.weight = self._weight

    @property
    def stage(self) -> AveragingStage:
        """Of the first round."""
        return self._first.stage if self._first is not None else AveragingStage.AWAITING_TRIGGER

    @property
    def triggered(self) -> bool:
        """Whether averaging was allowed to begin."""
        return self._begun

    def allow_allreduce(self) -> None:
        """Begin as soon as there is a group."""
        self._begun = True
        if self._first is not None:
            self._first.allow_allreduce()

    def done(self) -> bool:
        """Whether all rounds have ended, or the search for the first group has."""
        found_nobody = not self._begun and self._first is not None and self._first.done()
        return self._left or self._result is not None or found_nobody

    def cancel(self) -> bool:
        """Leave the round that lasts, and begin no other one."""
        self._left = True
        if self._current is not None and not self._current.done():
            self._current.cancel()
        return True

    def tag_along(self) -> None:
        """Begin no round after the first, unless that has begun: then the others count on this peer."""
        self._tags_along = not self._begun

    def result(self, timeout: float) -> Group:
        """Average in all rounds, for so many seconds at most; returns the first group that averaged.

        It has a problem if none did. `weights` and `assisted` are those of the first round, and else nothing.
        """
        with self._running:  # whoever asks meanwhile waits for the same result
            if self._result is None:
                self._result = self._average(time.monotonic() + timeout)
        return self._result

    def _average(self, deadline: float) -> Group:
        beginning = self._beginning
        group = first = self._group_of(self._first, deadline)
        weight, cell = self._weight, beginning.cell
        worked, not_finite = [], set(first.not_finite)
        while True:
            if group.problem is None:
                weight = group.mean_weight
                worked.append(group)
            if cell.round + 1 >= beginning.rounds or first.is_behind or self._goes_no_further(deadline):
                break
            cell = beginning.next_cell(cell, group)
            self._current = self._begin_round(
                gather=beginning.step,
                cell=cell,
                weight=weight,
                scheduled_time=clock.now() + cell.seconds,
                timeout=cell.seconds + beginning.patience,
                wait=False,
            )
            group = self._group_of(self._current, deadline)
            not_finite.update(group.not_finite)
        logger.debug(f"step {beginning.step}: {len(worked)} of {cell.round + 1} rounds worked, weight {weight}")
        result = worked[0] if worked else first
        if result is not first:
            result.weights, result.assisted = None, False  # those of means, not of peers
        if worked and weight <= LIGHTEST:
            result.problem = "nobody in the groups had samples"
        result.not_finite = sorted(not_finite)
        return result

    def _goes_no_further(self, deadline: float) -> bool:
        return self._left or self._tags_along or time.monotonic() >= deadline

    def _group_of(self, control: StepControl | None, deadline: float) -> Group:
        """The group of a round; an empty one with a problem if there is none."""
        failed = Group()
        if control is None:
            failed.problem = "nobody else was looking for a group"
            return failed
        try:
            group = control.result(max(0.0, deadline - time.monotonic()))
            assert isinstance(group, Group), "all averagers are stepwise"
            return group
        except Exception as error:
            if not control.done():
                control.cancel()
            failed.problem = reason(error)
            return failed
