"""The all-reduce of one group.

What this changes in hivemind's `AllReduceRunner`:
- a peer that reduces nothing gets means while it still sends. Upstream lets it wait until it has sent all, and
  its round takes the time of both directions, one after the other.
- once a stream runs, whoever is silent for longer than the plan makes likely is left out. Upstream waits as
  long as for one who has not begun yet.
"""

import contextlib
from collections.abc import AsyncGenerator
from types import SimpleNamespace
from typing import Any, AsyncIterator  # noqa: UP035  (hivemind looks for typing's, to tell streams from messages)

from hivemind.p2p import P2PContext, PeerID
from hivemind.proto import averaging_pb2
from hivemind.utils.asyncio import aiter_with_timeout

from trainer.averaging.sums import WeighingRunner

SHORTEST_SILENCE = 5.0  # seconds
SILENCE = 2.0  # in units of the predicted time of a round


def longest_silence(predicted: float | None, patience: float) -> float:
    """Seconds without a chunk after which whoever has begun is left out.

    Args:
        predicted: seconds that the round takes; None if that is not known.
        patience: seconds that the run file allows.
    """
    if predicted is None:
        return patience
    return min(patience, max(SHORTEST_SILENCE, SILENCE * predicted))


class StreamingRunner(WeighingRunner):
    """hivemind's all-reduce, with the changes above.

    Args:
        silence: seconds without a chunk, see `longest_silence`; None: as long as for who has not begun.
    """

    def __init__(self, *, silence: float | None, **kwargs: Any):
        self.silence = silence
        super().__init__(**kwargs)

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
            return self._heard(await stub.rpc_aggregate_part(parts))

        return SimpleNamespace(rpc_aggregate_part=aggregate_part)

    async def _heard(self, means: AsyncGenerator[averaging_pb2.AveragingData, None]) -> AsyncIterator[Any]:
        """Means come as long as all send; who is silent is left out first."""
        async with contextlib.aclosing(means):
            async for mean in means:
                yield mean
                break
            async for mean in aiter_with_timeout(means, self.silence and 2 * self.silence):
                yield mean
