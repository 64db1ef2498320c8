"""What happens in a group once it has formed: only peers at the same global step average.

What this changes in hivemind's `DecentralizedAverager`, for gradients and states alike:
- peers say at which global step they are. Those at the newest step average among themselves; the
  others learn that they are behind. Upstream averages whatever comes together.
- a leader takes along only peers at its own global step or one beside it, and believes nobody else's word.
- in a guarded run they show their passes too: whoever has none cannot join a group, is left out of one, and
  gets no state. Upstream serves everybody who knows an address.
- nobody weighs more in a mean than some target batches. Upstream takes any weight that it is told.
- whoever reduces a part tells afterwards what each member brought to it (`witness.py`).
- a part of the mean that was lost with the peer that reduced it is a failure. Upstream keeps the
  local values of that part and calls the round a success.
- a search for a group that ends without one says so at once, and it ends when nobody else is there after
  a while. Upstream keeps it to itself until the round is to begin, and the round fails then.
- a peer asks the DHT for others a few times a second. Upstream asks again as soon as it has an answer,
  for as long as nobody is there, and keeps everybody's DHT node busy until the group forms.
- the last message of an answer arrives while its sender stays (`streams.py`). Upstream loses it now and then.
- a call that arrives before its group is registered waits. Upstream refuses it whenever an earlier
  round ends in between, and the caller goes on with its own values.

The seam for later work: `_aggregate_with_group` also decides which part each peer reduces.
"""

import asyncio
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, AsyncIterator  # noqa: UP035  (hivemind looks for typing's, to tell streams from messages)

from hivemind.averaging import DecentralizedAverager
from hivemind.averaging.control import StepControl
from hivemind.averaging.group_info import GroupInfo
from hivemind.averaging.key_manager import GroupKeyManager
from hivemind.averaging.matchmaking import Matchmaking, MatchmakingException
from hivemind.p2p import P2PContext, PeerID
from hivemind.proto import auth_pb2, averaging_pb2
from hivemind.utils import MSGPackSerializer, get_logger
from hivemind.utils.asyncio import achain, anext, as_aiter, cancel_and_wait

from swarm.gate import Gate
from swarm.orphans import end_with_parent
from swarm.passes import PassRefused, is_coordinators
from swarm.shut_out import note_refusal
from trainer.averaging.claims import believed_step, is_beside
from trainer.averaging.streams import until_end, with_end
from trainer.averaging.witness import Weighed, brought, members_not_finite, watch

logger = get_logger(__name__)

REGISTRATION_POLL = 0.05  # seconds between two looks whether a group has been registered
ALONE = 0.5  # seconds beyond matchmaking_time after which a peer stops to wait for company
SEARCH_POLL = 0.3  # seconds between two looks who else looks for a group


class Search(Matchmaking):
    """hivemind's matchmaking; finding nobody is an error instead of a None that is passed on."""

    async def look_for_group(self, step: StepControl) -> GroupInfo:
        """See upstream."""
        search = asyncio.create_task(super().look_for_group(step))
        try:
            while self.step_control is not step and not search.done():  # an earlier search is being put away
                await asyncio.wait({search}, timeout=SEARCH_POLL)
            await asyncio.wait({search}, timeout=self.min_matchmaking_time + ALONE)
            while not search.done():
                if self._is_alone():
                    raise MatchmakingException("nobody else was looking for a group")
                await asyncio.wait({search}, timeout=SEARCH_POLL)
            group = search.result()
        finally:
            if not search.done():
                await cancel_and_wait(search)
        if group is None:
            raise MatchmakingException("no group was found in time")
        return group

    def _is_alone(self) -> bool:
        """Whether no group is there, and none is in sight.

        One that was found waits until the DHT knows that this peer looks no longer: on a busy machine for seconds.
        """
        asks = self.lock_request_join_group.locked()
        return not (asks or self.current_leader or self.current_followers or self.assembled_group.done())


class PacedKeys(GroupKeyManager):
    """hivemind's reader of the keys under which peers look for a group; it takes its time."""

    _looked = float("-inf")

    async def get_averagers(self, *args: Any, **kwargs: Any) -> list[tuple[PeerID, float]]:
        """See upstream."""
        await asyncio.sleep(self._looked + SEARCH_POLL - time.monotonic())
        self._looked = time.monotonic()
        return await super().get_averagers(*args, **kwargs)


class Group(dict[PeerID, Any]):
    """The peers that averaged, with what they told each other.

    `weights` are those of the part that this peer reduced, by member; None if it reduced none. `not_finite` are
    members that sent numbers that are not finite.
    """

    problem: str | None = None  # why the result cannot be used
    assisted: bool = False  # the coordinator is one of them
    weights: dict[PeerID, float] | None = None
    not_finite: Sequence[PeerID] = ()


class StepwiseAverager(DecentralizedAverager):
    """hivemind's averager, with the changes above. Every round is given its global step as `gather`.

    Args:
        gate: shows our pass and checks theirs; absent where everybody may take part.
        heaviest: the greatest weight that a peer has in a mean.
        assists: this is the coordinator's, which computes nothing; the others are told.
    """

    def __init__(self, *args: Any, gate: Gate | None, heaviest: float, assists: bool = False, **kwargs: Any):
        self.gate, self.heaviest, self.assists = gate, heaviest, assists
        self._weighed: dict[bytes, dict[PeerID, Weighed]] = {}  # by group, while its round lasts
        super().__init__(*args, **kwargs)

    def run(self) -> None:
        """See upstream; in the averager's own process."""
        end_with_parent()
        self.__dict__["get_stub"] = self._stub_with_pass  # a class method; downloads call it on the object
        super().run()

    @classmethod
    def get_stub(cls, *args: Any, **kwargs: Any) -> SimpleNamespace:
        """See upstream; the calls' answers are read to their end."""
        stub = super().get_stub(*args, **kwargs)

        async def aggregate_part(parts: AsyncIterator[averaging_pb2.AveragingData]) -> AsyncIterator[Any]:
            return until_end(await stub.rpc_aggregate_part(parts), averaging_pb2.AveragingData())

        async def download_state(request: auth_pb2.AccessToken) -> AsyncIterator[Any]:
            return until_end(await stub.rpc_download_state(request), averaging_pb2.DownloadData())

        return SimpleNamespace(
            rpc_join_group=stub.rpc_join_group,  # matchmaking reads what it needs and closes
            rpc_aggregate_part=aggregate_part,
            rpc_download_state=download_state,
        )

    def step(self, *args: Any, gather: int | None = None, **kwargs: Any) -> Any:
        """See upstream; `gather` is the global step."""
        return super().step(*args, gather=[gather, self._own_pass(), self.assists], **kwargs)

    async def _step(self, **kwargs: Any) -> None:
        # upstream names these classes where it makes the objects
        self._matchmaking.__class__ = Search
        self._matchmaking.group_key_manager.__class__ = PacedKeys
        await super()._step(**kwargs)

    async def _aggregate_with_group(self, group_info: GroupInfo, **kwargs: Any) -> Group:
        told = {
            peer_id: told
            for peer_id, told in zip(group_info.peer_ids, map(_told, group_info.gathered), strict=True)
            if peer_id == self.peer_id or self._admits(peer_id, told.shown)
        }
        steps = {peer_id: one.step for peer_id, one in told.items()}
        newest = believed_step(list(steps.values()))
        members = [peer_id for peer_id, step in steps.items() if step == newest]
        problem = None
        if steps[self.peer_id] != newest:
            problem = f"the others are at global step {newest}, this peer at {steps[self.peer_id]}"
        elif len(members) == 1:
            problem = "no other peer in the group is at this global step"
        if problem:
            self._weighed.pop(group_info.group_id, None)
            failed = Group(told)
            failed.problem = problem
            return failed
        kept = narrowed(group_info, members)
        registered = self._running_groups[kept.group_id]
        watch(registered, self.peer_id)
        try:
            averaged = Group(await super()._aggregate_with_group(kept, **kwargs))
            runner = await registered
        finally:
            weighed = self._weighed.pop(kept.group_id, {})
        averaged.weights = brought(runner, weighed.items(), self.peer_id)
        averaged.assisted = any(told[peer_id].is_coordinators(self.gate) for peer_id in members)
        averaged.not_finite = members_not_finite(runner)
        container = runner.tensor_part_container
        if container.failed_size:
            lost = container.failed_size / container.total_size
            why = "numbers were not finite" if averaged.not_finite else "a peer left"
            averaged.problem = f"{lost:.0%} of the mean was lost: {why}"
        return averaged

    async def rpc_join_group(
        self, request: averaging_pb2.JoinRequest, context: P2PContext
    ) -> AsyncIterator[averaging_pb2.MessageFromLeader]:
        """See upstream."""
        theirs = _told(request.gather)
        own_search = self._matchmaking.step_control
        near = own_search is None or is_beside(theirs.step, _told(own_search.data_for_gather).step)
        if not self._admits(context.remote_id, theirs.shown) or not near:
            yield averaging_pb2.MessageFromLeader(code=averaging_pb2.PROTOCOL_VIOLATION)
            return
        async for message in with_end(super().rpc_join_group(request, context), averaging_pb2.MessageFromLeader()):
            yield message

    async def rpc_download_state(
        self, request: auth_pb2.AccessToken, context: P2PContext
    ) -> AsyncIterator[averaging_pb2.DownloadData]:
        """See upstream, where the request is empty; here it carries a pass."""
        end = averaging_pb2.DownloadData()
        if not self._admits(context.remote_id, request.signature):
            yield end
            return
        async for message in with_end(super().rpc_download_state(request, context), end):
            yield message

    async def rpc_aggregate_part(
        self, stream: AsyncIterator[averaging_pb2.AveragingData], context: P2PContext
    ) -> AsyncIterator[averaging_pb2.AveragingData]:
        """See upstream."""
        weighed = Weighed(self.heaviest)
        stream = _weighed(stream, weighed)
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
        averaged = super().rpc_aggregate_part(achain(as_aiter(first), stream), context)
        end = averaging_pb2.AveragingData()
        async for message in with_end(averaged, end):
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

    def _own_pass(self) -> bytes:
        return self.gate.own.to_bytes() if self.gate else b""

    def _admits(self, peer_id: PeerID, shown: bytes) -> bool:
        """Whether a peer may have what it asks for."""
        if self.gate is None:
            return True
        try:
            self.gate.admit(peer_id, shown)
        except PassRefused as error:
            logger.info(f"{peer_id} was refused: {error}")
            note_refusal()
            return False
        return True

    def _stub_with_pass(self, *args: Any, **kwargs: Any) -> SimpleNamespace:
        """What upstream downloads a state with: the call, with our pass in it."""
        stub = type(self).get_stub(*args, **kwargs)
        return SimpleNamespace(
            rpc_download_state=lambda _: stub.rpc_download_state(auth_pb2.AccessToken(signature=self._own_pass()))
        )


def narrowed(group: GroupInfo, members: Collection[PeerID]) -> GroupInfo:
    """The group with these members only; all who keep the same ones come to the same result."""
    kept = [i for i, peer_id in enumerate(group.peer_ids) if peer_id in members]
    return GroupInfo(group.group_id, tuple(group.peer_ids[i] for i in kept), tuple(group.gathered[i] for i in kept))


async def _weighed(
    stream: AsyncIterator[averaging_pb2.AveragingData], weighed: Weighed
) -> AsyncIterator[averaging_pb2.AveragingData]:
    """The parts that a peer sends, none heavier than possible; with what is no weight the peer is left out."""
    async for part in stream:
        part.weight = weighed.weigh(part.weight)
        yield part


@dataclass(frozen=True)
class Told:
    """What a peer told its group."""

    step: int
    shown: bytes  # its pass
    assists: bool  # it says that it is the coordinator

    def is_coordinators(self, gate: Gate | None) -> bool:
        """Whether to believe that; its pass was checked before, where there are passes."""
        return self.assists and (gate is None or is_coordinators(self.shown))


def _told(gathered: bytes) -> Told:
    """What is in a peer's message to its group: bandwidth, mode, and the `gather` of the round.

    Something else counts as a step that nobody is at, without a pass.
    """
    try:
        step, shown, *assists = MSGPackSerializer.loads(MSGPackSerializer.loads(gathered)[2])
        return Told(int(step), bytes(shown), assists == [True])
    except Exception:
        return Told(-1, b"", False)
