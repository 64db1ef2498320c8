"""How a peer looks for a group.

What this changes in hivemind's `Matchmaking` and `GroupKeyManager`:
- a search for a group that ends without one says so at once, and it ends when nobody else is there after
  a while. Upstream keeps it to itself until the round is to begin, and the round fails then.
- a group without most of the peers, or of peers that only rest, is none (`told.py`), and the search goes on. Upstream
  takes any, and when a swarm comes together in two groups, both take the step, each with a part of the batch.
- a search that finds nobody when the round could begin is given up after a while, or as soon as a peer leaves it, but
  not while a group is in sight. Upstream goes on for as long as a round may last, and whoever missed one round of the
  others would miss their next, too.
- a peer asks the DHT for others a few times a second. Upstream asks again as soon as it has an answer,
  for as long as nobody is there, and keeps everybody's DHT node busy until the group forms.
- a peer that stood still for a while makes no group of those who waited for it then. Upstream does, and waits for them.
- each search may be at a place of its own, with a time of its own (`moshpit/grid.py`).
  Upstream has one place for all, or moves it by itself.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, MutableMapping
from typing import Any

from hivemind.averaging.control import StepControl
from hivemind.averaging.group_info import GroupInfo
from hivemind.averaging.key_manager import GroupKeyManager
from hivemind.averaging.matchmaking import Matchmaking, MatchmakingException
from hivemind.p2p import PeerID
from hivemind.utils.asyncio import cancel_and_wait

from swarm import clock
from trainer.averaging.moshpit.grid import Cell, read_cell

GROUP_PATIENCE = 2  # in units of matchmaking_time: how long a peer looks for a group before it looks who is where
ALONE = 0.5  # seconds beyond matchmaking_time after which a peer stops to wait for company
SEARCH_POLL = 0.3  # seconds between two looks who else looks for a group


class Search(Matchmaking):
    """hivemind's matchmaking; finding too few is an error, as is finding nobody."""

    is_enough: Callable[[GroupInfo], bool]  # whether a group may average
    usual_seconds: float  # for which a group waits for more members where there is no grid
    left: MutableMapping[StepControl, str]  # rounds for which this peer makes no group any more, and why

    @contextlib.asynccontextmanager
    async def looking_for_group(self, step_control: StepControl) -> AsyncIterator[None]:
        """See upstream; there is one search at a time."""
        async with super().looking_for_group(step_control):
            cell = read_cell(step_control.data_for_gather)
            self.group_key_manager.cell = cell
            self.target_group_size = cell.full if cell else None
            seconds = cell.seconds if cell else self.usual_seconds
            self.min_matchmaking_time = self.potential_leaders.min_matchmaking_time = seconds
            yield

    async def look_for_group(self, step: StepControl) -> GroupInfo:
        """See upstream."""
        search = asyncio.create_task(super().look_for_group(step))
        try:
            while self.step_control is not step and not search.done():  # an earlier search is being put away
                await asyncio.wait({search}, timeout=SEARCH_POLL)
            patience_ends = clock.now() + self.min_matchmaking_time + ALONE
            while not search.done():
                if step.done():
                    raise MatchmakingException("it took too long to find a group")
                if self._is_alone():
                    if why := self.left.get(step):
                        step.set_exception(MatchmakingException(why))
                        raise MatchmakingException(why)
                    if clock.now() >= patience_ends:
                        raise MatchmakingException("nobody else was looking for a group")
                await asyncio.wait({search}, timeout=SEARCH_POLL)
            group = search.result()
        finally:
            if not search.done():
                await cancel_and_wait(search)
        if group is None:
            raise MatchmakingException("no group was found in time")
        if not self.is_enough(group):
            came = f"only {len(group.peer_ids)} peers came together"
            raise MatchmakingException(f"{came}, which are not most of them or have nothing to average")
        return group

    async def leader_assemble_group(self) -> GroupInfo | None:
        """See upstream; followers that wait no longer because this peer stood still are left out.

        If nobody is left there is no group, and the search goes on or ends as one that found nobody.
        """
        for follower, request in list(self.current_followers.items()):
            if clock.now() > request.expiration + self.request_timeout:
                del self.current_followers[follower]
        return await super().leader_assemble_group() if self.current_followers else None

    def _is_alone(self) -> bool:
        """Whether no group is there, and none is in sight.

        One that was found waits until the DHT knows that this peer looks no longer: on a busy machine for seconds.
        """
        asks = self.lock_request_join_group.locked()
        return not (asks or self.current_leader or self.current_followers or self.assembled_group.done())


async def give_up(step: StepControl, patience: float, left: MutableMapping[StepControl, str]) -> None:
    """Leave the search for a group so many seconds after the round could begin."""
    while not step.triggered:
        await asyncio.sleep(SEARCH_POLL)
    await asyncio.sleep(patience)
    left[step] = "nobody else averages now"


class PacedKeys(GroupKeyManager):
    """hivemind's reader of the keys under which peers look for a group; it takes its time."""

    cell: Cell | None = None  # where this peer looks
    _looked = float("-inf")

    @property
    def current_key(self) -> str:
        """See upstream."""
        return f"{self.prefix}_{self.cell.round}.0b{self.cell.key}" if self.cell else str(super().current_key)

    async def get_averagers(self, *args: Any, **kwargs: Any) -> list[tuple[PeerID, float]]:
        """See upstream."""
        await asyncio.sleep(self._looked + SEARCH_POLL - time.monotonic())
        self._looked = time.monotonic()
        return await super().get_averagers(*args, **kwargs)
