"""The all-reduce of one group.

What this changes in hivemind's `AllReduceRunner`:
- a peer that reduces nothing gets means while it still sends. Upstream lets it wait until it has sent all, and
  its round takes the time of both directions, one after the other.
- a peer sends no more than some pieces ahead of the means that it gets for them. Upstream fills all buffers on the
  way, and where a thin line is shared by many streams, libp2p takes one that has not moved for ten seconds for dead
  and resets all that there is between the two peers.
- once a stream runs, whoever is silent for longer than the plan makes likely is left out. Upstream waits as
  long as for one who has not begun yet.
"""

import asyncio
import contextlib
import math
from collections.abc import AsyncGenerator
from types import SimpleNamespace
from typing import Any, AsyncIterator  # noqa: UP035  (hivemind looks for typing's, to tell streams from messages)

from hivemind.p2p import P2PContext, PeerID
from hivemind.proto import averaging_pb2
from hivemind.utils.asyncio import aiter_with_timeout

from trainer.averaging.moshpit.sums import WeighingRunner

SHORTEST_SILENCE = 5.0  # seconds
AHEAD_SECONDS = 2.0  # of its upload, that a peer sends ahead of means, on all streams together ...
AHEAD_BYTES = 3 * 2**19  # ... or so much, where that is not known: enough to measure it, and 12 s of 1 Mbit/s
AHEAD_LEAST = 3  # pieces: whoever averages reads so many of each sender before it waits for the slowest one
SILENCE = 1.0  # in units of the predicted time of a round


def longest_silence(predicted: float | None, patience: float) -> float:
    """Seconds without a chunk after which whoever has begun is left out.

    Args:
        predicted: seconds that the round takes; None if that is not known.
        patience: seconds that the run file allows.
    """
    if predicted is None:
        return patience
    return min(patience, max(SHORTEST_SILENCE, SILENCE * predicted))


def pieces_ahead(upload: float, streams: int, piece: float) -> int:
    """Pieces that a peer sends on each stream before it gets the mean of the first one.

    Args:
        upload: bytes a second that its line carries; 0: not known.
        streams: to those who average parts.
        piece: bytes.
    """
    whole = AHEAD_SECONDS * upload if upload else AHEAD_BYTES
    return max(AHEAD_LEAST, math.ceil(whole / max(1, streams) / piece))


class StreamingRunner(WeighingRunner):
    """hivemind's all-reduce, with the changes above.

    Args:
        silence: seconds without a chunk, see `longest_silence`; None: as long as for who has not begun.
        upload: bytes a second that this peer's line carries; 0: not known.
    """

    def __init__(self, *, silence: float | None, upload: float, **kwargs: Any):
        self.silence = silence
        super().__init__(**kwargs)
        streams = sum(part > 0 for part in self.peer_fractions)
        self._ahead = pieces_ahead(upload, streams, self.tensor_part_container.part_size_bytes)
        self._may_send = [asyncio.Semaphore(self._ahead) for _ in self.ordered_peer_ids]

    def should_delay_results(self, peer_id: PeerID) -> bool:
        """Never."""
        return False

    async def rpc_aggregate_part(
        self, stream: AsyncIterator[averaging_pb2.AveragingData], context: P2PContext
    ) -> AsyncIterator[averaging_pb2.AveragingData]:
        """See upstream; the stream has begun."""
        heard = aiter_with_timeout(stream, self.silence)
        async for message in super().rpc_aggregate_part(heard, context):
            yield message

    def _get_peer_stub(self, peer: PeerID) -> Any:
        stub = super()._get_peer_stub(peer)

        async def aggregate_part(parts: AsyncIterator[averaging_pb2.AveragingData]) -> AsyncIterator[Any]:
            return self._heard(await stub.rpc_aggregate_part(parts), self.ordered_peer_ids.index(peer))

        return SimpleNamespace(rpc_aggregate_part=aggregate_part)

    async def _heard(self, means: AsyncGenerator[averaging_pb2.AveragingData, None], index: int) -> AsyncIterator[Any]:
        """Means come as long as all send; who is silent is left out first."""
        async with contextlib.aclosing(means):
            async for mean in means:
                self._may_send[index].release()
                yield mean
                break
            async for mean in aiter_with_timeout(means, self.silence and 2 * self.silence):
                self._may_send[index].release()
                yield mean

    async def _generate_input_for_peer(self, peer_index: int) -> AsyncIterator[averaging_pb2.AveragingData]:
        async for message in super()._generate_input_for_peer(peer_index):
            await self._may_send[peer_index].acquire()
            yield message
