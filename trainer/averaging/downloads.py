"""From whom a peer takes over a state, and what it believes of it.

What this changes in hivemind's `DecentralizedAverager`:
- in a guarded run the coordinator's state is taken. While the coordinator is away the states of three users are asked
  for, and each number is the middle one of theirs, so that one of them who lies changes nothing. Where there are fewer,
  and in a run without passes, it is the newest; in a guarded run of one group only if most others are not a step short
  of it. Upstream takes the state of whoever says that it is the newest.
- a state of another form, of an older step or with numbers that are not finite is refused, and another peer is asked.
- in a guarded run the request for a state carries a pass, and the state its giver's. Upstream serves everybody who
  knows an address.
"""

import asyncio
import contextlib
import math
import random
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, AsyncIterator, NamedTuple  # noqa: UP035  (hivemind looks for typing's, to tell streams)

import torch
from hivemind.compression import deserialize_torch_tensor
from hivemind.p2p import P2PContext, PeerID
from hivemind.proto import auth_pb2, averaging_pb2, runtime_pb2
from hivemind.utils import MPFuture, ValueWithExpiration, get_logger
from hivemind.utils.asyncio import aiter_with_timeout
from hivemind.utils.streaming import combine_from_streaming

from swarm.passes import PassRefused
from swarm.shut_out import note_refusal
from trainer.averaging.lines.measured import Source
from trainer.averaging.shared_rounds import SharingAverager
from trainer.averaging.streams import with_end

logger = get_logger(__name__)

VOICES = 3  # users whose states are compared while the coordinator is away
NUMBER = 4  # bytes; states travel as float32


class StateRefused(ValueError):
    """What a peer gave is no state that this peer takes."""


@dataclass(frozen=True)
class Wanted:
    """What a state has to be."""

    at_least: int = 0  # its global step
    newest: int = 0  # the newest global step of the swarm, as far as this peer believes it
    disputed: bool = False  # most others are one step short of that: a state of it is not believed of one or two
    shapes: tuple[tuple[int, ...], ...] | None = None  # of its tensors; None: any


class State(NamedTuple):
    """What a peer gave."""

    giver: PeerID
    user: str  # as in the giver's pass; empty in a run without passes
    step: int
    tensors: list[torch.Tensor]


class DownloadingAverager(SharingAverager):
    """hivemind's averager, with the changes above."""

    _giver: PeerID | None = None  # of the newest state that was taken over

    def download_state(self, wanted: Wanted, timeout: float) -> tuple[int, list[torch.Tensor]] | None:
        """Step and tensors of the state that this peer should take over; None: there is none now.

        Raises:
            concurrent.futures.TimeoutError: it takes more than `timeout` seconds.
        """
        future = MPFuture()
        self._outer_pipe.send(("_download_state", [], {"wanted": wanted, "future": future}))
        return future.result(timeout)

    async def _download_state(self, wanted: Wanted, future: "MPFuture[Any]") -> None:
        state = None
        try:
            async with self.own_line.measured(self._p2p, Source.DOWNLOAD):
                state = await self._chosen_state(wanted)
        except Exception as error:
            logger.warning(f"no state could be downloaded: {error!r}")
        if state is not None:
            self._giver = state.giver
        if not future.done():
            future.set_result(state and (state.step, state.tensors))

    async def _chosen_state(self, wanted: Wanted) -> State | None:
        offers, leader = await self._offers(), self._coordinator()
        leads = leader in offers and offers[leader] >= wanted.newest - 1  # one may be taken or a lie at this moment
        if leads and offers[leader] < wanted.at_least:
            return None  # it will be there soon
        if leads and (state := await self._state_of(leader, wanted)):
            return state
        states: dict[str, State] = {}
        for peer in by_novelty({peer: step for peer, step in offers.items() if peer != leader}, wanted):
            if state := await self._state_of(peer, wanted, besides=states):
                states[state.user] = state
            if states and (self.gate is None or len(states) == VOICES):
                break
        found = list(states.values())
        if len(found) == VOICES:
            return await asyncio.get_running_loop().run_in_executor(None, middle, found)
        return next((state for state in found if state.step < wanted.newest or not wanted.disputed), None)

    def _coordinator(self) -> PeerID | None:
        """On the authority's word; None: it is not known."""
        named = self.gate.notices.coordinator if self.gate else ""
        return PeerID.from_base58(named) if named else None

    async def _offers(self) -> dict[PeerID, float]:
        """The others that have a state to give: the sum of its global step and the ease of their lines."""
        key = f"{self._matchmaking.group_key_manager.prefix}.all_averagers"
        found = await self.dht.get(key, latest=True, return_future=True)
        told = found.value if isinstance(found, ValueWithExpiration) and isinstance(found.value, dict) else {}
        offers = {PeerID(peer): one.value for peer, one in told.items() if isinstance(one.value, (int, float))}
        return {peer: float(step) for peer, step in offers.items() if peer != self.peer_id}

    async def _state_of(self, peer: PeerID, wanted: Wanted, besides: Collection[str] = ()) -> State | None:
        """The state of a peer that is none of these users; None: it gave none that can be taken."""
        logger.info(f"Downloading parameters from peer {peer}")
        silence = self.next_chunk_timeout if self.next_chunk_timeout is not None else self.request_timeout
        try:
            stub = type(self).get_stub(self._p2p, peer, namespace=self.prefix)
            stream = await stub.rpc_download_state(auth_pb2.AccessToken(signature=self._own_pass()))
            async with contextlib.aclosing(stream):
                return await self._read_state(peer, aiter_with_timeout(stream, silence), wanted, besides)
        except (StateRefused, PassRefused) as error:
            logger.warning(f"refused a state from {peer}: {error}")
        except Exception as error:
            logger.warning(f"a state did not arrive from {peer}: {error!r}")
        return None

    async def _read_state(
        self,
        peer: PeerID,
        messages: AsyncIterator[averaging_pb2.DownloadData],
        wanted: Wanted,
        besides: Collection[str],
    ) -> State:
        step, user = -1, ""
        pieces: list[runtime_pb2.Tensor] = []
        tensors: list[torch.Tensor] = []
        left = math.inf if wanted.shapes is None else sum(NUMBER * math.prod(shape) for shape in wanted.shapes)
        async for message in messages:
            if step < 0:
                step, user = self._read_head(peer, message.metadata, wanted)
                if user in besides:
                    raise StateRefused(f"another peer of {user} has given one")
            if message.tensor_part.dtype and pieces:  # of the next tensor
                tensors.append(deserialize_torch_tensor(combine_from_streaming(pieces)))
                pieces = []
            pieces.append(message.tensor_part)
            left -= len(message.tensor_part.buffer)
            if left < 0:
                raise StateRefused("it is larger than this peer's own")
        if not pieces:
            raise StateRefused("it has none to give")
        tensors.append(deserialize_torch_tensor(combine_from_streaming(pieces)))
        check(tensors, wanted.shapes)
        return State(peer, user, step, tensors)

    def _read_head(self, peer: PeerID, head: bytes, wanted: Wanted) -> tuple[int, str]:
        """Global step and user of a state that begins."""
        try:
            said = self.serializer.loads(head)
            step, shown = said.get("epoch", 0), said.get("pass", b"")
        except Exception:
            raise StateRefused("it does not say what it is") from None
        if not isinstance(step, int) or step < max(0, wanted.at_least):
            raise StateRefused(f"it is of global step {step}, and this peer needs {wanted.at_least}")
        return step, self.gate.admit(peer, shown).user if self.gate else ""

    async def rpc_download_state(
        self, request: auth_pb2.AccessToken, context: P2PContext
    ) -> AsyncIterator[averaging_pb2.DownloadData]:
        """See upstream, where the request is empty; here it carries a pass."""
        end = averaging_pb2.DownloadData()
        if not self._admits(context.remote_id, request.signature):
            yield end
            return
        async for message in with_end(self.caps.sent(super().rpc_download_state(request, context)), end):
            yield message

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


def by_novelty(offers: Mapping[PeerID, float], wanted: Wanted) -> list[PeerID]:
    """Those with the newest states first, among them those with fat lines; to claim a step beyond is no help."""
    usable = [peer for peer, step in offers.items() if step >= wanted.at_least]
    return sorted(usable, key=lambda peer: (min(offers[peer], wanted.newest + 1.0), random.random()), reverse=True)


def check(tensors: Sequence[torch.Tensor], shapes: Sequence[Sequence[int]] | None) -> None:
    """Raises StateRefused if these are not tensors of such shapes, or have numbers that are not finite."""
    if shapes is not None and [tuple(one.shape) for one in tensors] != list(map(tuple, shapes)):
        raise StateRefused("it broke off, or is of another model")
    if not all(torch.isfinite(tensor).all() for tensor in tensors):
        raise StateRefused("it has numbers that are not finite")


def middle(states: Sequence[State]) -> State:
    """Each number, the step too, is the middle one of an odd number of states."""
    step = sorted(state.step for state in states)[len(states) // 2]
    tensors = [torch.stack(alike).median(dim=0).values for alike in zip(*(one.tensors for one in states), strict=True)]
    return states[0]._replace(step=step, tensors=tensors)
