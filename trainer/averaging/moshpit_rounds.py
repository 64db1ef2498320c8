"""The rounds of a global step in small groups, one after the other (`grid.py`, `sums.py`; Moshpit SGD, algorithm 1).

To hivemind all of them are one round: `GridControl` stands where the control of the only round would. Peers find
each other for the first one as they would in one group; the others follow at once. A round that does not work costs a
peer no more than that round: it goes on with the mean that it has, as in the paper. If none works there is no result.
"""

import threading
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

from hivemind.averaging.control import AveragingStage, StepControl
from hivemind.utils import get_logger

from swarm import clock
from swarm.run_file import AveragingSection
from trainer.averaging.grid import Cell, grid_bits, other_bits, place_of
from trainer.averaging.groups import Group, StepwiseAverager
from trainer.averaging.moshpit import indices, next_key, rounds_to_mix
from trainer.averaging.sums import LIGHTEST

logger = get_logger(__name__)

PATIENCE = 2  # in units of matchmaking_time: how long a peer looks for its first group
GATHERING = 1.5  # in units of request_timeout: how long a group of a later round waits for more members


@dataclass(frozen=True)
class Beginning:
    """What one peer knows of the rounds of a global step before the first one."""

    cell: Cell  # in the first round
    members: int  # peers in it
    rounds: int
    size: int  # target size of a group
    is_full: bool  # as many peers as a full grid has
    own: bytes  # this peer's id

    def next_cell(self, cell: Cell, group: Group, seconds: float) -> Cell:
        """Where to go from a cell, after its group has averaged or failed to."""
        here = [peer.to_bytes() for peer in group]
        if group.group_id and self.own in here:
            index = indices(group.group_id, len(here), self.size)[here.index(self.own)]
        else:
            index = indices(self.own + bytes([cell.round]), 1, self.size)[0]
        full = self.size if self.is_full else None
        return Cell(cell.round + 1, next_key(cell.key, index, self.size), seconds, full)


class SwarmGrid:
    """What a peer knows of the grid; `others` gives the ids of the other peers at about a global step."""

    def __init__(self, settings: AveragingSection, own: bytes, others: Callable[[int], Collection[bytes]]):
        assert settings.target_group_size is not None, "there is a grid"
        self._settings, self._size, self._own, self._others = settings, settings.target_group_size, own, others
        self._bits: int | None = None

    def begin(self, step: int, of: str) -> Beginning | None:
        """How a global step begins; None: all peers are one group. `of`: what is averaged."""
        others = {self._own, *self._others(step)} - {self._own}
        self._bits = grid_bits(len(others) + 1, self._size, self._bits)
        if self._bits == 0:
            return None
        place = place_of(self._own, others, self._bits, step, of)
        rounds = self._settings.rounds_per_step or rounds_to_mix(self._bits, self._size)
        is_full = place.peers == self._size * 2**self._bits
        cell = Cell(0, place.key, self._settings.matchmaking_time, place.members)
        return Beginning(cell, place.members, rounds, self._size, is_full, self._own)

    def schedule(
        self,
        averager: StepwiseAverager,
        step: int,
        of: str,
        search: Callable[..., StepControl],
        *,
        quorum: bool = False,
        **kwargs: Any,
    ) -> "GridControl | None":
        """Look for the first group of a global step; None: all peers are one group.

        Args:
            averager: whose tensors they are.
            step: global step.
            of: what is averaged.
            search: begins a search, as `StepwiseAverager.step` does.
            quorum: the group must have most of the peers in its cell.
            kwargs: for `search`.
        """
        beginning = self.begin(step, of)
        if beginning is None:
            return None
        told = {"gather": step, "seen": beginning.members if quorum else 0, "cell": beginning.cell}
        first = search(**kwargs | told | {"timeout": PATIENCE * self._settings.matchmaking_time})
        return GridControl(averager, self._settings, beginning, step, first)

    def found_nobody(self, step: int) -> None:
        """There was no group where this peer looked: the others may have keys of another length."""
        if self._bits:
            self._bits = other_bits(len({self._own, *self._others(step)}), self._size, self._bits)


class GridControl:
    """Controls the rounds of one global step, as hivemind's `StepControl` does one round."""

    def __init__(
        self,
        averager: StepwiseAverager,
        settings: AveragingSection,
        beginning: Beginning,
        step: int,
        first: StepControl | None,
    ):
        """Nothing is averaged yet.

        Args:
            averager: whose tensors they are.
            settings: of the run.
            beginning: of this global step.
            step: global step.
            first: controls the first round; None: this peer found nobody for it, and begins with the second.
        """
        self.step = step
        self._averager, self._settings, self._beginning = averager, settings, beginning
        self._first, self._later = first, first
        self._weight = 1.0
        self._begun = self._left = self._tags_along = False
        self._running = threading.Lock()
        self._result: Group | None = None

    def without_first_round(self) -> "GridControl":
        """The other rounds, for a peer that found no group for the first one."""
        return GridControl(self._averager, self._settings, self._beginning, self.step, None)

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
        return (
            self._left
            or self._result is not None
            or (not self._begun and self._first is not None and self._first.done())
        )

    def cancel(self) -> bool:
        """Leave the round that lasts, and begin no other one."""
        self._left = True
        if self._later is not None and not self._later.done():
            self._later.cancel()
        return True

    def result(self, timeout: float) -> Group:
        """Average in all rounds, for so many seconds at most; returns the first group that averaged.

        It has a problem if none did. `weights` and `assisted` are those of the first round.
        """
        with self._running:  # whoever asks meanwhile waits for the same result
            if self._result is None:
                self._result = self._average(timeout)
        return self._result

    def tag_along(self) -> None:
        """Begin no round after the first, if that has not begun: the others in it may count on this peer."""
        self._tags_along = not self._begun

    def _average(self, timeout: float) -> Group:
        deadline = time.monotonic() + timeout
        group = first = self._averaged(self._first, deadline)
        weight, cell = self._weight, self._beginning.cell
        worked, not_finite = [], set(first.not_finite)
        while True:
            if group.problem is None:
                weight = group.mean_weight
                worked.append(group)
            last = cell.round + 1 >= self._beginning.rounds
            if last or first.is_behind or self._left or self._tags_along or time.monotonic() > deadline:
                break
            cell = self._beginning.next_cell(cell, group, self._gathering)
            group = self._average_again(cell, weight, deadline)
            not_finite.update(group.not_finite)
        if worked and worked[0] is not first:
            first = worked[0]
            first.weights, first.assisted = None, False  # those of means, not of peers
        if worked and weight <= LIGHTEST:
            first.problem = "nobody in the groups had samples"
        first.not_finite = sorted(not_finite)
        logger.debug(f"step {self.step}: {len(worked)} of {cell.round + 1} rounds worked; weight {weight}")
        return first

    @property
    def _gathering(self) -> float:
        return min(self._settings.matchmaking_time, GATHERING * self._settings.request_timeout)

    def _average_again(self, cell: Cell, weight: float, deadline: float) -> Group:
        """One of the later rounds; a peer waits for the others for the time in which peers find each other."""
        self._later = StepwiseAverager.step(
            self._averager,  # not what its class does before the first round
            gather=self.step,
            cell=cell,
            weight=weight,
            scheduled_time=clock.now() + cell.seconds,
            timeout=cell.seconds + self._settings.matchmaking_time,
            wait=False,
        )
        return self._averaged(self._later, deadline)

    def _averaged(self, control: StepControl | None, deadline: float) -> Group:
        """The group of a round; one with a problem if there is none."""
        try:
            if control is None:
                raise RuntimeError("nobody else was looking for a group")
            group = control.result(max(0.0, deadline - time.monotonic()))
            assert isinstance(group, Group), "all averagers are stepwise"
            return group
        except Exception as error:
            if control is not None and not control.done():
                control.cancel()
            failed = Group()
            failed.problem = str(error) or type(error).__name__
            return failed
