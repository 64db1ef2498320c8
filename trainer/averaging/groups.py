"""What happens in a group once it has formed: only peers at the same global step average.

What this changes in hivemind's `DecentralizedAverager`, for gradients and states alike:
- peers say at which global step they are. Those at the newest step average among themselves; the
  others learn that they are behind. Upstream averages whatever comes together.
- a leader takes along only peers at its own global step or one beside it, and believes nobody else's word.
- in a guarded run they show their passes too: whoever has none cannot join a group, and is left out of one.
- nobody weighs more in a mean than some target batches, and where parameters are averaged nobody moves them by more
  than rounding has (`copies.py`). Upstream takes any weight and any numbers.
- whoever reduces a part tells afterwards what each member brought to it (`witness.py`).
- whoever brings no samples sends no gradients (`silent.py`).
- a part of the mean that was lost with the peer that reduced it is a failure. Upstream keeps the
  local values of that part and calls the round a success.
- peers look for a group in their own way (`search.py`).
- the last message of an answer arrives while its sender stays (`streams.py`). Upstream loses it now and then.
- a call that arrives before its group is registered waits. Upstream refuses it whenever an earlier
  round ends in between, and the caller goes on with its own values.
- parts are as the lines of the members carry them (`shared_rounds.py`), also of newcomers (`newcomers.py`).
"""

import asyncio
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, AsyncIterator  # noqa: UP035  (hivemind looks for typing's, to tell streams from messages)
from weakref import WeakKeyDictionary

import hivemind.averaging.averager
from hivemind.averaging.control import StepControl
from hivemind.averaging.group_info import GroupInfo
from hivemind.p2p import P2PContext, PeerID
from hivemind.proto import auth_pb2, averaging_pb2
from hivemind.utils import get_logger
from hivemind.utils.asyncio import achain, anext, as_aiter

from swarm.gate import Gate
from swarm.orphans import end_with_parent
from swarm.shut_out import note_refusal
from trainer.averaging.claims import is_beside
from trainer.averaging.copies import Copies, bound
from trainer.averaging.lines.caps import NO_CAPS, Caps
from trainer.averaging.lines.measured import OwnLine
from trainer.averaging.moshpit.grid import Cell, packed, read_cell
from trainer.averaging.moshpit.sums import mean_weight, say_weight
from trainer.averaging.newcomers import WelcomingAverager
from trainer.averaging.roles import Assigned
from trainer.averaging.runner import StreamingRunner
from trainer.averaging.search import GROUP_PATIENCE, PacedKeys, Search, give_up
from trainer.averaging.silent import be_silent
from trainer.averaging.streams import until_end, with_end
from trainer.averaging.told import (
    Told,
    at_newest_step,
    is_enough,
    narrowed,
    read_told,
    to_tell,
)
from trainer.averaging.witness import Weighed, brought, members_not_finite, watch

logger = get_logger(__name__)

REGISTRATION_POLL = 0.05  # seconds between two looks whether a group has been registered


class Group(dict[PeerID, Any]):
    """The peers that averaged, with what they told each other.

    `weights` are those of the part that this peer reduced, by member; None if it reduced none. `not_finite` are
    members that sent numbers that are not finite. `mean_weight` is a member's share of what all weigh together.
    """

    problem: str | None = None  # why the result cannot be used
    assisted: bool = False  # the coordinator is one of them
    weights: dict[PeerID, float] | None = None
    not_finite: Sequence[PeerID] = ()
    mean_weight: float = 0.0
    group_id: bytes = b""
    is_behind: bool = False  # the others are at a newer global step
    assigned: Assigned | None = None  # this peer's role from now on


class StepwiseAverager(WelcomingAverager):
    """hivemind's averager, with the changes above. Every round is given its global step as `gather`.

    Args:
        gate: shows our pass and checks theirs; absent where everybody may take part.
        heaviest: the greatest weight that a peer has in a mean.
        assists: this is the coordinator's, which computes nothing; the others are told.
        own_caps: what this peer's volunteer allows.
        own_line: what is known of its line; None: nothing but the caps, and the averager has a line of its own.
    """

    copies: Copies | None = None  # of the parameters, where they are what is averaged

    def __init__(
        self,
        *args: Any,
        gate: Gate | None,
        heaviest: float,
        assists: bool = False,
        own_caps: Caps = NO_CAPS,
        own_line: OwnLine | None = None,
        **kwargs: Any,
    ):
        self.own_caps = own_caps
        self.gate, self.heaviest, self.assists = gate, heaviest, assists
        self._weighed: dict[bytes, dict[PeerID, Weighed]] = {}  # by group, while its round lasts
        self._newest_round: StepControl | None = None  # here, and in the averager's own process
        self._left: WeakKeyDictionary[StepControl, str] = WeakKeyDictionary()  # there (`search.py`)
        super().__init__(*args, own_line=own_line or OwnLine.within(own_caps), **kwargs)

    def run(self) -> None:
        """See upstream; in the averager's own process."""
        end_with_parent()
        StepwiseAverager.caps = self.own_caps  # streams are begun by class methods
        hivemind.averaging.averager.AllReduceRunner = StreamingRunner  # upstream names it where it makes the object
        super().run()

    @classmethod
    def get_stub(cls, *args: Any, **kwargs: Any) -> SimpleNamespace:
        """See upstream; the calls' answers are read to their end."""
        stub = super().get_stub(*args, **kwargs)

        async def aggregate_part(parts: AsyncIterator[averaging_pb2.AveragingData]) -> AsyncIterator[Any]:
            answer = await stub.rpc_aggregate_part(cls.caps.sent(parts))
            return cls.caps.read(until_end(answer, averaging_pb2.AveragingData()))

        async def download_state(request: auth_pb2.AccessToken) -> AsyncIterator[Any]:
            return cls.caps.read(until_end(await stub.rpc_download_state(request), averaging_pb2.DownloadData()))

        return SimpleNamespace(
            rpc_join_group=stub.rpc_join_group,  # matchmaking reads what it needs and closes
            rpc_aggregate_part=aggregate_part,
            rpc_download_state=download_state,
            rpc_probe_line=stub.rpc_probe_line,
        )

    def step(
        self,
        *args: Any,
        gather: int | None = None,
        seen: int = 0,
        cell: Cell | None = None,
        speed: float = 0.0,
        trains: bool = True,
        **kwargs: Any,
    ) -> Any:
        """See upstream; `gather` is the global step.

        Args:
            seen: peers at this step, this one included, most of which the group must have; 0: any group will do.
            cell: where to look for the group; None: where everybody does.
            speed: samples a second that this peer computes, or would; 0: not known.
            trains: it has something to send.
        """
        own = self._own_pass()
        told = to_tell(gather, own, assists=self.assists, seen=seen, cell=packed(cell), speed=speed, trains=trains)
        begun = super().step(*args, gather=told, **kwargs)
        self._newest_round = begun if isinstance(begun, StepControl) else None
        return begun

    def leave_round(self) -> None:
        """From any thread: whoever waits for the newest round waits no longer; it has failed."""
        if self._newest_round is not None and not self._newest_round.done():
            self._newest_round.cancel()

    def stop_looking(self) -> None:
        """From any thread: whoever waits for the newest round waits no longer than for a group that is in sight."""
        self._outer_pipe.send(("_stop_looking", [], {}))

    async def _stop_looking(self) -> None:
        if self._newest_round is not None:
            self._left[self._newest_round] = "this peer looks for no group any more"

    async def _step(self, *, step: StepControl, **kwargs: Any) -> None:
        self._newest_round = step
        # upstream names these classes where it makes the objects
        self._matchmaking.__class__ = Search
        self._matchmaking.is_enough = self._is_enough
        self._matchmaking.left = self._left
        self._matchmaking.usual_seconds = usual = self.matchmaking_kwargs["min_matchmaking_time"]
        self._matchmaking.group_key_manager.__class__ = PacedKeys
        step._data_for_gather = self._with_lines(step.data_for_gather)
        cell = read_cell(step.data_for_gather)
        patience = GROUP_PATIENCE * (cell.seconds if cell else usual)
        giving_up = asyncio.create_task(give_up(step, patience, self._left))
        try:
            await super()._step(step=step, **kwargs)
        finally:
            giving_up.cancel()

    def _admitted(self, group: GroupInfo) -> dict[PeerID, Told]:
        """What those members of a group have told who may be in it."""
        told = zip(group.peer_ids, map(read_told, group.gathered), strict=True)
        return {peer: one for peer, one in told if peer == self.peer_id or self._admits(peer, one.shown)}

    def _is_enough(self, group: GroupInfo) -> bool:
        return is_enough(list(at_newest_step(self._admitted(group)).values()), self.gate)

    async def _aggregate_with_group(self, group_info: GroupInfo, **kwargs: Any) -> Group:
        told = self._admitted(group_info)
        members = at_newest_step(told)
        problem = None
        if self.peer_id not in members:
            newest = next(iter(members.values())).step
            problem = f"the others are at global step {newest}, this peer at {told[self.peer_id].step}"
        elif len(members) == 1:
            problem = "no other peer in the group is at this global step"
        if problem:
            self._weighed.pop(group_info.group_id, None)
            failed = Group(told)
            failed.problem, failed.is_behind = problem, self.peer_id not in members
            return failed
        averaged = await self._average_within(narrowed(group_info, members), **kwargs)
        averaged.assisted = any(one.is_coordinators(self.gate) for one in members.values())
        return averaged

    async def _average_within(self, kept: GroupInfo, **kwargs: Any) -> Group:
        """One all-reduce of those who stay in a group."""
        registered = self._running_groups[kept.group_id]
        watch(registered, self.peer_id)
        be_silent(registered)
        told = {peer: read_told(words) for peer, words in zip(kept.peer_ids, kept.gathered, strict=True)}
        if self.copies is not None:
            self.copies.begin(told[self.peer_id].step)
            bound(registered, self.copies)
        try:
            await self._reduce(kept, **kwargs)
            averaged = Group(self._admitted(kept))
            runner = await registered
        finally:
            weighed = self._weighed.pop(kept.group_id, {})
        if self.copies is not None:
            self.copies.end([peer for peer, one in told.items() if one.is_coordinators(self.gate)])
        averaged.weights = brought(runner, weighed.items(), self.peer_id)
        averaged.not_finite = members_not_finite(runner)
        averaged.mean_weight, averaged.group_id = mean_weight(runner, self.heaviest), kept.group_id
        container = runner.tensor_part_container
        if container.failed_size:
            lost = container.failed_size / container.total_size
            why = "numbers were not finite" if averaged.not_finite else "a peer left"
            averaged.problem = f"{lost:.0%} of the mean was lost: {why}"
        averaged.assigned = self._assigned(kept)
        return averaged

    async def rpc_join_group(
        self, request: averaging_pb2.JoinRequest, context: P2PContext
    ) -> AsyncIterator[averaging_pb2.MessageFromLeader]:
        """See upstream."""
        theirs = read_told(request.gather)
        own_search = self._matchmaking.step_control
        near = own_search is None or is_beside(theirs.step, read_told(own_search.data_for_gather).step)
        if not self._admits(context.remote_id, theirs.shown) or not near:
            yield averaging_pb2.MessageFromLeader(code=averaging_pb2.PROTOCOL_VIOLATION)
            return
        async for message in with_end(super().rpc_join_group(request, context), averaging_pb2.MessageFromLeader()):
            yield message

    async def rpc_aggregate_part(
        self, stream: AsyncIterator[averaging_pb2.AveragingData], context: P2PContext
    ) -> AsyncIterator[averaging_pb2.AveragingData]:
        """See upstream."""
        weighed = Weighed(self.heaviest)
        stream = _weighed(self.caps.read(stream), weighed)
        first = await anext(stream)
        patience = self.allreduce_kwargs["sender_timeout"]
        for _ in range(int(patience / REGISTRATION_POLL)):
            if first.group_id in self._running_groups:
                break
            await asyncio.sleep(REGISTRATION_POLL)
        else:
            note_refusal()
            yield averaging_pb2.AveragingData(code=averaging_pb2.BAD_GROUP_ID)
            return
        self._weighed.setdefault(first.group_id, {}).setdefault(context.remote_id, weighed)
        runner = self._running_groups[first.group_id]
        averaged = super().rpc_aggregate_part(achain(as_aiter(first), stream), context)
        end = averaging_pb2.AveragingData()
        async for message in with_end(self.caps.sent(averaged), end):
            if message.code == averaging_pb2.AVERAGED_PART:
                say_weight(message, runner.result())
            yield message
            if message.code not in (averaging_pb2.AVERAGED_PART, end.code):
                break  # an error: the other side may still be sending, and would not be heard to close

    async def _shutdown(self, timeout: float | None) -> None:
        """See upstream, which takes the futures of its groups for groups, and fails in the middle of a round."""
        while self._running_groups:
            _, group = self._running_groups.popitem()
            if not group.cancel() and not group.cancelled() and not group.exception():
                group.result().finalize(cancel=True)
        await super()._shutdown(timeout)


async def _weighed(
    stream: AsyncIterator[averaging_pb2.AveragingData], weighed: Weighed
) -> AsyncIterator[averaging_pb2.AveragingData]:
    """The parts that a peer sends, none heavier than possible; with what is no weight the peer is left out."""
    async for part in stream:
        part.weight = weighed.weigh(part.weight)
        yield part
