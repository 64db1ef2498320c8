"""Newcomers: they take over a state, and learn what their line carries before their first round.

What this changes in hivemind's `DecentralizedAverager`:
- in a guarded run the request for a state carries a pass. Upstream serves everybody who knows an address.
- among those with an equally new state, newcomers ask whose line is fat.
- the download shows what the line carries down. What it carries up a probe shows (`lines/probe.py`), which goes to
  whoever has given the state while the newcomer tries how it computes. Upstream asks people for a number.
"""

import asyncio
import contextlib
import functools
from types import SimpleNamespace
from typing import Any, AsyncIterator, ClassVar  # noqa: UP035  (hivemind looks for typing's, to tell streams from messages)

from hivemind.p2p import P2P, P2PContext, PeerID
from hivemind.proto import auth_pb2, averaging_pb2, runtime_pb2
from hivemind.utils import MPFuture, get_logger
from hivemind.utils.asyncio import anext

from swarm.passes import PassRefused
from swarm.shut_out import note_refusal
from trainer.averaging.lines.caps import NO_CAPS, Caps
from trainer.averaging.lines.measured import Source
from trainer.averaging.lines.probe import MOST, pieces
from trainer.averaging.lines.speeds import ease
from trainer.averaging.shared_rounds import SharingAverager
from trainer.averaging.streams import with_end

logger = get_logger(__name__)

SLACK = 1.0  # seconds beyond the last piece of a probe until the answer
LONGEST = 2 * MOST  # seconds that whoever takes in a probe gives to it


class WelcomingAverager(SharingAverager):
    """hivemind's averager, with the changes above."""

    caps: ClassVar[Caps] = NO_CAPS  # of this process, which has one averager
    _giver: PeerID | None = None  # who was last asked for a state
    _probing: "asyncio.Task[None] | None" = None

    @functools.cached_property
    def _probed(self) -> asyncio.Lock:
        """Held while somebody's probe is taken in: two at once would share this line."""
        return asyncio.Lock()

    @property
    def state_sharing_priority(self) -> float:
        """See upstream; among those with an equally new state, newcomers ask whose line is fat."""
        return super().state_sharing_priority + ease(self.own_line.upload)

    @state_sharing_priority.setter
    def state_sharing_priority(self, step: float) -> None:
        SharingAverager.state_sharing_priority.fset(self, step)

    async def _load_state_from_peers(self, future: "MPFuture[Any]", *args: Any, **kwargs: Any) -> None:
        async with self.own_line.measured(self._p2p, Source.DOWNLOAD):
            await super()._load_state_from_peers(future, *args, **kwargs)
        giver = None if future.cancelled() or future.result() is None else self._giver
        if giver is not None and self._probing is None and not self.own_line.upload_was_seen:
            self._probing = asyncio.create_task(self._probe(giver))

    async def _probe(self, peer: PeerID) -> None:
        """Measure what this line carries up, on the way to another peer; if that fails the first round will tell."""
        stub = type(self).get_stub(self._p2p, peer, namespace=self.prefix)
        try:
            async with self.own_line.measured(self._p2p, Source.PROBE) as is_measured:
                if is_measured:
                    await asyncio.wait_for(stub.rpc_probe_line(self.caps.sent(self._nothing())), MOST + SLACK)
        except Exception as error:
            logger.debug(f"the line was not probed to its end: {error!r}")

    async def _nothing(self) -> AsyncIterator[averaging_pb2.DownloadData]:
        """Our pass, and the pieces of a probe."""
        yield averaging_pb2.DownloadData(metadata=self._own_pass())
        async for piece in pieces():
            yield averaging_pb2.DownloadData(tensor_part=runtime_pb2.Tensor(buffer=piece))

    async def rpc_probe_line(
        self, stream: AsyncIterator[averaging_pb2.DownloadData], context: P2PContext
    ) -> averaging_pb2.DownloadData:
        """Take in what a newcomer sends to measure its line, if nothing speaks against it.

        The first message is its pass. Pieces are read to their end and not paced: hivemind keeps what reads a stream as
        long as messages of it wait.
        """
        has_time = self.allow_state_sharing and not self.caps.download and not self._probed.locked()
        if has_time:
            async with self._probed:
                with contextlib.suppress(asyncio.TimeoutError, StopAsyncIteration):
                    await asyncio.wait_for(self._swallow(stream, context.remote_id), LONGEST)
        return averaging_pb2.DownloadData()

    async def _swallow(self, stream: AsyncIterator[averaging_pb2.DownloadData], peer: PeerID) -> None:
        first = await anext(stream)
        if self._admits(peer, first.metadata):
            async for _ in stream:
                pass

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

    def _stub_with_pass(self, p2p: P2P, peer: PeerID, **kwargs: Any) -> SimpleNamespace:
        """What upstream downloads a state with: the call, with our pass in it."""
        stub, self._giver = type(self).get_stub(p2p, peer, **kwargs), peer
        request = auth_pb2.AccessToken(signature=self._own_pass())
        return SimpleNamespace(rpc_download_state=lambda _: stub.rpc_download_state(request))

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
