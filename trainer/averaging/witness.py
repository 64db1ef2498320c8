"""What a peer sees of its group while it averages: what each member brought, whom it waits for, and whose numbers
are not finite.

What this changes in hivemind's `TensorPartReducer` and `TensorPartContainer`:
- a member that sends numbers that are not finite is left out of the mean. Upstream adds them up.
- a member that breaks off while its piece is averaged leaves alone. Upstream cancels the piece for all of them,
  and whoever averages it waits for it until the round times out.
- a piece that a member sends twice is refused. Upstream adds both up, and leaves another member out for it.
- a mean that is not finite counts as lost with the member that reduced it. Upstream takes it over.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

import torch
from hivemind.averaging.allreduce import AllreduceException, AllReduceRunner
from hivemind.averaging.partition import TensorPartContainer
from hivemind.p2p import PeerID

from trainer.averaging.claims import believed_weight
from trainer.averaging.lines.late import Wait
from trainer.averaging.lines.waits import Arrivals, last_alone
from trainer.averaging.moshpit.sums import WeighingReducer


class NotFinite(AllreduceException):
    """A member sent numbers that are not finite."""


@dataclass
class Weighed:
    """The parts that one member sends to this peer in a round; it weighs what the lightest of them does."""

    heaviest: float
    weight: float | None = None

    def weigh(self, claim: float) -> float:
        """The weight of its next part in the mean.

        Raises:
            ValueError: the claim is no weight.
        """
        believed = believed_weight(claim, self.heaviest)
        self.weight = believed if self.weight is None else min(self.weight, believed)
        return believed


class FiniteReducer(WeighingReducer):
    """hivemind's reducer of this peer's part, with the change above. `own` is this peer's index among the senders."""

    own: int
    not_finite: set[int]  # indices of senders
    came: set[tuple[int, int]]  # indices of senders and pieces
    added: Counter[int]  # pieces that are in the mean, by index of the sender
    arrivals: Arrivals

    def begin(self, own: int, now: float) -> None:
        """Upstream made the object, as one of its own class; `now` in seconds of the monotonic clock."""
        self.own, self.not_finite, self.came, self.added = own, set(), set(), Counter()
        self.arrivals = Arrivals(self.num_senders, now)

    async def accumulate_part(
        self, sender_index: int, part_index: int, tensor_part: torch.Tensor, weight: float = 1.0
    ) -> torch.Tensor:
        """See upstream."""
        if (sender_index, part_index) in self.came:  # by another stream; in the mean it would push somebody else out
            raise AllreduceException("a member has sent a piece twice")
        self.came.add((sender_index, part_index))
        self.arrivals.come(sender_index, part_index, time.monotonic())
        if sender_index != self.own and not self._is_usable(tensor_part, part_index, weight):
            self.not_finite.add(sender_index)
            raise NotFinite("a member's numbers are not finite, or of another shape")
        return await asyncio.shield(self._add(sender_index, part_index, tensor_part, weight))

    async def _add(self, sender_index: int, part_index: int, tensor_part: torch.Tensor, weight: float) -> torch.Tensor:
        mean = await super().accumulate_part(sender_index, part_index, tensor_part, weight)
        self.added[sender_index] += 1
        return mean

    def _is_usable(self, part: torch.Tensor, index: int, weight: float) -> bool:
        is_silent = weight == 0.0 and part.numel() == 1  # `silent.py`
        return (is_silent or part.shape == self.part_shapes[index]) and bool(torch.isfinite(part).all())


class FiniteContainer(TensorPartContainer):
    """hivemind's holder of what others reduced, with the change above. `own` is this peer's index in the group."""

    own: int
    not_finite: set[int]  # indices of members
    newest: dict[int, float]  # when the newest piece of a mean came, by index of the member

    def register_processed_part(self, peer_index: int, part_index: int, part: torch.Tensor) -> None:
        """See upstream."""
        self.newest[peer_index] = time.monotonic()
        if peer_index != self.own and not torch.isfinite(part).all():
            self.not_finite.add(peer_index)
            raise NotFinite("a member's mean is not finite")
        super().register_processed_part(peer_index, part_index, part)


def watch(registered: "asyncio.Future[AllReduceRunner]", own: PeerID) -> None:
    """Look at what a group is sent, from the moment that its runner is there."""

    def begin(done: "asyncio.Future[AllReduceRunner]") -> None:
        if done.cancelled() or done.exception():
            return
        runner = done.result()
        # upstream names these classes where it makes the objects
        reducer, container = runner.tensor_part_reducer, runner.tensor_part_container
        reducer.__class__, container.__class__ = FiniteReducer, FiniteContainer
        reducer.begin(runner.sender_peer_ids.index(own), time.monotonic())
        container.own, container.not_finite, container.newest = runner.ordered_peer_ids.index(own), set(), {}

    registered.add_done_callback(begin)


def brought(
    runner: AllReduceRunner, weighed: Iterable[tuple[PeerID, Weighed]], own: PeerID
) -> dict[PeerID, float] | None:
    """By member, the weight with which it is in the part that this peer reduced; None if it reduced none.

    Whoever fell silent after its last piece was left out of nothing, though upstream bans it.
    """
    if not runner.parts_for_local_averaging:
        return None
    added, parts = runner.tensor_part_reducer.added, len(runner.parts_for_local_averaging)
    whole = {peer_id for index, peer_id in enumerate(runner.sender_peer_ids) if added[index] == parts}
    there = {peer_id: one.weight for peer_id, one in weighed if peer_id in whole}
    return {peer_id: weight for peer_id, weight in there.items() if weight is not None} | {own: runner.weight}


def waits(runner: AllReduceRunner, began: float) -> list[Wait]:
    """For whom alone this peer waited; `began` in seconds of the monotonic clock."""
    found = [
        Wait(runner.sender_peer_ids[index], seconds, as_sender=True)
        for index, seconds in runner.tensor_part_reducer.arrivals.alone.items()
    ]
    if last := last_alone(runner.tensor_part_container.newest, began):
        found.append(Wait(runner.ordered_peer_ids[last[0]], last[1], as_sender=False))
    return [wait for wait in found if wait.peer != runner.peer_id]


def members_not_finite(runner: AllReduceRunner) -> list[PeerID]:
    """The members that sent numbers that are not finite, as senders or as reducers."""
    senders = [runner.sender_peer_ids[index] for index in runner.tensor_part_reducer.not_finite]
    reducers = [runner.ordered_peer_ids[index] for index in runner.tensor_part_container.not_finite]
    return sorted({*senders, *reducers})
