"""This peer's view of the grid (`grid.py`), and its searches for the first group of a global step."""

from collections.abc import Callable, Collection
from functools import partial

from hivemind.averaging.control import StepControl

from swarm.run_file import AveragingSection
from trainer.averaging.groups import StepwiseAverager
from trainer.averaging.moshpit.grid import Cell, grid_bits, other_bits, place_of
from trainer.averaging.moshpit.keys import rounds_to_mix
from trainer.averaging.moshpit.rounds import Beginning, GridControl

PATIENCE = 2  # in units of matchmaking_time: how long a peer looks for its first group
GATHERING = 1.5  # in units of request_timeout: how long a group of a later round waits for more members


class SwarmGrid:
    """What a peer knows of the grid, for gradients and states alike; not for several threads."""

    def __init__(self, settings: AveragingSection, own: bytes, others: Callable[[int], Collection[bytes]]):
        """Nothing is known yet.

        Args:
            settings: of the run, with a target size of groups.
            own: this peer's id.
            others: gives the ids of the other peers that are at about a global step.
        """
        assert settings.target_group_size is not None, "there is a grid"
        self._settings, self._size, self._own, self._others = settings, settings.target_group_size, own, others
        self._bits: int | None = None
        self._missed: GridControl | None = None  # the newest search for gradients that found nobody

    def begin(self, step: int, of: str) -> Beginning | None:
        """How a global step begins; None: all peers are one group. `of`: what is averaged."""
        settings, others = self._settings, {*self._others(step)} - {self._own}
        self._bits = grid_bits(len(others) + 1, self._size, self._bits)
        if self._bits == 0:
            return None
        place = place_of(self._own, others, self._bits, step, of)
        return Beginning(
            step=step,
            cell=Cell(0, place.key, settings.matchmaking_time, place.members),
            members=place.members,
            rounds=settings.rounds_per_step or rounds_to_mix(self._bits, self._size),
            size=self._size,
            is_full=place.peers == self._size * 2**self._bits,
            own=self._own,
            gathering=min(settings.matchmaking_time, GATHERING * settings.request_timeout),
            patience=settings.matchmaking_time,
        )

    def schedule(
        self,
        averager: StepwiseAverager,
        step: int,
        of: str,
        search: Callable[..., StepControl],
        *,
        quorum: bool = False,
        **kwargs: object,
    ) -> GridControl | None:
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
        # later rounds do not load tensors, as the averager's own `step` would
        return GridControl(beginning, first, partial(StepwiseAverager.step, averager))

    def has_missed(self, search: object, step: int) -> bool:
        """Whether this search, which has ended, found nobody for the first round of a global step."""
        if not isinstance(search, GridControl) or search.step != step or search.triggered:
            return False
        if search is not self._missed and self._bits:  # the others may have keys of another length
            self._bits = other_bits(len({self._own, *self._others(step)}), self._size, self._bits)
        self._missed = search
        return True

    def later_rounds(self, step: int) -> GridControl | None:
        """The rounds of a global step but the first one, if a search for that has found nobody."""
        missed = self._missed
        return missed.without_first_round() if missed is not None and missed.step == step else None

    def forget_missed(self) -> None:
        """A round has begun."""
        self._missed = None
