"""What the mean of a group weighs, so that its members can average it again.

Peers with gradients g_i of w_i samples shall have the sum of all w_i g_i over the sum of all w_i, in several rounds. A
group of n has the mean m = sum(w_i g_i) / sum(w_i) after a round, and each member goes on with it at the weight
sum(w_i) / n. So the sums over all peers of weights, and of weights times gradients, are what they were before the
round, whatever the sizes of groups: on a full grid the mean is exact in the end, and without one it comes nearer
with every round. A peer with no samples counts as a member: it takes its share of the weight.

What this changes in hivemind's all-reduce: whoever reduces a part says, with each piece of the mean, what its senders
weigh on average. Upstream only the reducer knows, and peers in client mode reduce nothing.
"""

import statistics
from collections.abc import AsyncGenerator
from types import SimpleNamespace
from typing import Any, AsyncIterator  # noqa: UP035  (as hivemind's own)

from hivemind.averaging.allreduce import AllReduceRunner
from hivemind.averaging.partition import TensorPartReducer
from hivemind.p2p import PeerID
from hivemind.proto import averaging_pb2

from trainer.averaging.claims import believed_weight

LIGHTEST = 1e-6  # samples; what a peer without any weighs, or a group of such peers would divide by zero


class WeighingReducer(TensorPartReducer):
    """hivemind's reducer, which remembers what the senders of its newest piece weigh on average."""

    mean_weight: float | None = None

    def check_current_part_finished(self) -> None:
        """See upstream."""
        if 0 < self.current_part_accumulated_from == self.num_current_senders:
            self.mean_weight = self.denominator / self.num_current_senders
        super().check_current_part_finished()


class WeighingRunner(AllReduceRunner):
    """hivemind's all-reduce, which listens to what others say that the mean weighs."""

    def __init__(self, **kwargs: Any):
        self.heard: dict[PeerID, float] = {}  # by reducer
        super().__init__(**kwargs)

    def _get_peer_stub(self, peer: PeerID) -> SimpleNamespace:
        stub = super()._get_peer_stub(peer)

        async def aggregate_part(parts: AsyncIterator[averaging_pb2.AveragingData]) -> AsyncIterator[Any]:
            return self._listening(await stub.rpc_aggregate_part(parts), peer)

        return SimpleNamespace(rpc_aggregate_part=aggregate_part)

    async def _listening(
        self, answers: AsyncGenerator[averaging_pb2.AveragingData, None], peer: PeerID
    ) -> AsyncIterator[averaging_pb2.AveragingData]:
        try:
            async for answer in answers:
                if answer.weight > 0.0:
                    self.heard[peer] = answer.weight
                yield answer
        finally:
            await answers.aclose()


def say_weight(answer: averaging_pb2.AveragingData, runner: AllReduceRunner) -> None:
    """Put on an answer of this peer what the piece of the mean in it weighs."""
    if answer.code == averaging_pb2.AVERAGED_PART and runner.tensor_part_reducer.mean_weight is not None:
        answer.weight = runner.tensor_part_reducer.mean_weight


def mean_weight(runner: WeighingRunner, heaviest: float) -> float:
    """What a member's share of the group's mean weighs: the median of what the reducers say, this peer among them."""
    own = runner.tensor_part_reducer.mean_weight
    said = [*runner.heard.values(), *([own] if own is not None else [])]
    try:
        return believed_weight(statistics.median_low(said or [runner.weight]), heaviest)
    except ValueError:
        return float(runner.weight)
