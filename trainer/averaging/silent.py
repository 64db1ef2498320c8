"""Whoever brings no samples sends no gradients: the mean is the same without its zeros, and its line is free.

What this changes in hivemind's `TensorPartContainer`: a peer of no weight that has nothing but zeros (the coordinator,
a peer that only averages) sends a single zero in place of each part. Whoever reduces the part adds it to every number
of the sum, with no weight, and answers with the whole mean as ever. Upstream sends all of the zeros.
"""

import asyncio
from collections.abc import AsyncIterator

from hivemind.averaging.allreduce import AllReduceRunner
from hivemind.proto import runtime_pb2

from trainer.averaging.witness import FiniteContainer


class SilentContainer(FiniteContainer):
    """What others reduce for a peer that has nothing to send."""

    async def iterate_input_parts_for(self, peer_index: int) -> AsyncIterator[runtime_pb2.Tensor]:
        """See upstream."""
        assert not self._inputs_consumed_by_peer[peer_index], "these parts have been sent"
        self._inputs_consumed_by_peer[peer_index] = True
        for part, info in self._input_parts_by_peer[peer_index]:
            yield self.compression.compress(part.new_zeros(1), info)


def be_silent(registered: "asyncio.Future[AllReduceRunner]") -> None:
    """Send no zeros in a group, from the moment that its runner is there; after `witness.watch`."""

    def begin(done: "asyncio.Future[AllReduceRunner]") -> None:
        if done.cancelled() or done.exception():
            return
        runner = done.result()
        container = runner.tensor_part_container
        if runner.weight == 0.0 and not any(tensor.any() for tensor in container.local_tensors):
            container.__class__ = SilentContainer

    registered.add_done_callback(begin)
