"""How far a round that averages parameters may move them: no farther than copies of honest peers are apart.

What this changes in hivemind's `TensorPartReducer` and `TensorPartContainer`, where parameters are averaged:
- each peer compares what comes, as a sender's piece and as a reducer's mean, with its own copy. An element that is
  farther off than a leeway is taken at the leeway; of a piece with most of its elements beyond it nothing is taken.
  Upstream takes whatever comes, so a single peer can replace all parameters.
- a peer that is far from most of the others learns it (`Copies.is_off`), and takes over a state.

Copies drift apart because each peer decodes another mean of the gradients, and where a gradient is nearly zero, another
sign of it is a whole step. Measured against the stride, the root mean square change of a tensor in one optimizer step:
with REACH strides a step since the last such round, 9 % of the elements at most are beyond the leeway, and no piece is
(four peers, 8 bits, LAMB and Adam, a round every 1, 5 and 50 steps). In small groups with REACH_ON_GRID: 15 % at most,
where one round in five fails (eight peers in groups of two).
"""

import asyncio
import multiprocessing
from collections.abc import Collection, Sequence
from typing import Any

import torch
from hivemind.averaging.allreduce import AllReduceRunner
from hivemind.compression import CompressionInfo
from hivemind.p2p import PeerID

from trainer.averaging.witness import FiniteContainer, FiniteReducer

REACH, REACH_ON_GRID = 0.5, 2.0  # strides for each global step since the last round, in one group and in small ones
FADING = 0.9  # of a stride in the next optimizer step: one step that is short by chance makes nobody a stranger
ROUNDING = 2.0**-11  # relative, of float16: what encoding alone moves a number by


class Strides:
    """Root mean square change of each parameter tensor in an optimizer step, for any optimizer of torch's."""

    def __init__(self, optimizer: torch.optim.Optimizer):
        self._before: list[torch.Tensor] = []
        self.newest = torch.zeros(sum(len(group["params"]) for group in optimizer.param_groups)).share_memory_()
        optimizer.register_step_pre_hook(self._begin)
        optimizer.register_step_post_hook(self._end)

    def _begin(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        self._before = [tensor.detach().clone() for tensor in parameters_of(optimizer)]

    def _end(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        moved = torch._foreach_sub([tensor.detach() for tensor in parameters_of(optimizer)], self._before)
        strides = torch.stack([change.square().mean().sqrt() for change in moved])
        self.newest.copy_(torch.maximum(strides, FADING * self.newest))
        self._before = []


class Copies:
    """What a peer has seen of the others' copies in a global step. Made before the averager's process is forked."""

    def __init__(self, strides: torch.Tensor, reach: float):
        """Nothing is seen yet.

        Args:
            strides: by tensor, as in `Strides.newest`.
            reach: how many of them an element of another copy may be away.
        """
        self._strides, self._reach = strides, reach
        self._step = -1
        self._seen: dict[PeerID, int] = {}  # elements that were near, less those that were far
        self._is_off = multiprocessing.Value("b", 0)

    @property
    def is_off(self) -> bool:
        """Whether this peer's copy was far from most others in the newest round. All processes of the peer may ask."""
        return bool(self._is_off.value)

    def forget(self) -> None:
        """This peer has another copy now."""
        self._is_off.value = False

    def begin(self, step: int) -> None:
        """A round of a global step begins; a step may have several (`moshpit/`)."""
        if step != self._step:
            self._step, self._seen = step, {}

    def end(self, coordinators: Collection[PeerID]) -> None:
        """A round has ended; `coordinators` are those of its members."""
        far = {peer for peer, balance in self._seen.items() if balance < 0}
        self._is_off.value = is_off(len(self._seen) - len(far), len(far), not far.isdisjoint(coordinators))

    def near(self, peer: PeerID, own: torch.Tensor, other: torch.Tensor, info: CompressionInfo) -> torch.Tensor | None:
        """What to take of a peer's copy of a piece, see `within`."""
        taken = within(own, other, self._reach * float(self._strides[info.key]))
        self._seen[peer] = self._seen.get(peer, 0) + (own.numel() if taken is not None else -own.numel())
        return taken


def within(own: torch.Tensor, other: torch.Tensor, bound: float) -> torch.Tensor | None:
    """`other`, each element no farther from `own` than `bound` and rounding; None: most of them were farther."""
    with torch.no_grad():
        leeway = own.abs().mul_(ROUNDING).add_(bound)
        if 2 * int(((other - own).abs() <= leeway).sum()) < own.numel():
            return None
        return torch.clamp(other, own - leeway, own + leeway)


def is_off(near: int, far: int, coordinator_is_far: bool) -> bool:
    """Whether a peer's own copy is the wrong one, with so many others near to it and far from it.

    Where it is one against one, as many as agree with the coordinator are right.
    """
    return far > near + 1 or (far == near + 1 and coordinator_is_far)


def parameters_of(optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
    """In the order in which they are averaged."""
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


class BoundedReducer(FiniteReducer):
    """The reducer of this peer's part, with the change above."""

    copies: Copies
    senders: Sequence[PeerID]
    pieces: Sequence[tuple[torch.Tensor, CompressionInfo]]  # this peer's own

    async def accumulate_part(
        self, sender_index: int, part_index: int, tensor_part: torch.Tensor, weight: float = 1.0
    ) -> torch.Tensor:
        """See upstream; a piece that is too far off has no weight."""
        own, info = self.pieces[part_index]
        if sender_index != self.own and tensor_part.shape == own.shape:
            taken = self.copies.near(self.senders[sender_index], own, tensor_part, info)
            tensor_part, weight = (tensor_part, 0.0) if taken is None else (taken, weight)
        return await super().accumulate_part(sender_index, part_index, tensor_part, weight)


class BoundedContainer(FiniteContainer):
    """The holder of what others reduced, with the change above."""

    copies: Copies
    reducers: Sequence[PeerID]
    pieces: Sequence[Sequence[tuple[torch.Tensor, CompressionInfo]]]  # this peer's own, by index of the reducer
    lost: set[int]  # indices of reducers whose other pieces do not come

    def register_processed_part(self, peer_index: int, part_index: int, part: torch.Tensor) -> None:
        """See upstream; `part` is what the mean differs by from this peer's own piece."""
        own, info = self.pieces[peer_index][part_index]
        if peer_index != self.own and peer_index not in self.lost and part.shape == own.shape:
            taken = self.copies.near(self.reducers[peer_index], own, own + part, info)
            part = torch.zeros_like(own) if taken is None else taken - own
        super().register_processed_part(peer_index, part_index, part)

    def register_failed_reducer(self, peer_index: int) -> None:
        """See upstream, which takes this peer's own pieces."""
        self.lost.add(peer_index)
        super().register_failed_reducer(peer_index)


def bound(registered: "asyncio.Future[AllReduceRunner]", copies: Copies) -> None:
    """Bound what a group may change, from the moment that its runner is there; after `witness.watch`."""

    def begin(done: "asyncio.Future[AllReduceRunner]") -> None:
        if done.cancelled() or done.exception():
            return
        runner = done.result()
        reducer, container = runner.tensor_part_reducer, runner.tensor_part_container
        reducer.__class__, container.__class__ = BoundedReducer, BoundedContainer
        reducer.copies = container.copies = copies
        container.pieces = [list(pieces) for pieces in container._input_parts_by_peer]
        container.reducers, container.lost = runner.ordered_peer_ids, set()
        reducer.senders, reducer.pieces = runner.sender_peer_ids, container.pieces[container.own]

    registered.add_done_callback(begin)
