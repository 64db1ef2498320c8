"""What a header leads to: the parameters of the model, and what the optimizer remembers."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Layout:
    """Which tensors a flat vector holds, one after the other. All peers of a run have the same."""

    names: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]
    decays: tuple[bool, ...]  # whether weight decay applies

    @property
    def sizes(self) -> tuple[int, ...]:
        """Elements of each tensor."""
        return tuple(math.prod(shape) for shape in self.shapes)

    @property
    def size(self) -> int:
        """Elements of the vector."""
        return sum(self.sizes)

    def views(self, vector: Tensor) -> list[Tensor]:
        """The tensors in a vector; they share its memory."""
        parts = torch.split(vector, list(self.sizes))
        return [part.view(shape) for part, shape in zip(parts, self.shapes, strict=True)]

    def flat(self, tensors: Sequence[Tensor]) -> Tensor:
        """A new vector of float32 on the processor with the content of these tensors."""
        return torch.cat([one.detach().reshape(-1).to("cpu", torch.float32) for one in tensors])


@dataclass
class State:
    """After a header. Vectors of float32 on the processor, in the order of the run's layout.

    Peers that have applied the same header hold the same bytes, so nothing here may depend on the machine.
    """

    step: int  # of the header
    updates: int  # that were applied on the way, by which the optimizer corrects the bias of its moments
    parameters: Tensor
    moments: tuple[Tensor, ...]  # of the optimizer: with Adam and LAMB those of the gradient and of its square
