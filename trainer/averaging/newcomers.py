"""Newcomers learn what their line carries before their first round.

What this changes in hivemind's `DecentralizedAverager`:
- where any peer may give the state (`downloads.py`), newcomers ask those whose lines are fat.
- the download shows what the line carries down. What it carries up a probe shows (`lines/probe.py`), which goes to
  whoever has given the state while the newcomer tries how it computes. Upstream asks people for a number.
"""

import asyncio
import contextlib
import functools
from typing import Any, AsyncIterator, ClassVar  # noqa: UP035  (hivemind looks for typing's, to tell streams from messages)

from hivemind.p2p import P2PContext, PeerID
from hivemind.proto import averaging_pb2, runtime_pb2
from hivemind.utils import MPFuture, get_logger
from hivemind.utils.asyncio import anext

from trainer.averaging.downloads import DownloadingAverager, Wanted
from trainer.averaging.lines.caps import NO_CAPS, Caps
from trainer.averaging.lines.measured import Source
from trainer.averaging.lines.probe import MOST, pieces
from trainer.averaging.lines.speeds import ease

logger = get_logger(__name__)

SLACK = 1.0  # seconds beyond the last piece of a probe until the answer
LONGEST = 2 * MOST  # seconds that whoever takes in a probe gives to it


class WelcomingAverager(DownloadingAverager):
    """hivemind's averager, with the changes above."""

    caps: ClassVar[Caps] = NO_CAPS  # of this process, which has one averager
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
        DownloadingAverager.state_sharing_priority.fset(self, step)

    async def _download_state(self, wanted: Wanted, future: "MPFuture[Any]") -> None:
        await super()._download_state(wanted, future)
        if self._giver is not None and self._probing is None and not self.own_line.upload_was_seen:
            self._probing = asyncio.create_task(self._probe(self._giver))

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
