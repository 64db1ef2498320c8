"""What a header leads to: the parameters of the model, and what the optimizer remembers."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

# in the names of parameters that turn tokens into vectors, or vectors into scores: no hidden matrices
OUTSIDE = ("embeddings", "decoder", "classifier")


@dataclass(frozen=True)
class Layout:
    """Which tensors a flat vector holds, one after the other. All peers of a run have the same."""

    names: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]
    has_muon: bool = False  # whether hidden matrices take Muon's step

    @staticmethod
    def of(parameters: Iterable[tuple[str, Tensor]], *, has_muon: bool) -> "Layout":
        """That of a model's named parameters, in an order that all peers have."""
        names, shapes = zip(*((name, tuple(one.shape)) for name, one in parameters), strict=True)
        return Layout(names, shapes, has_muon)

    @property
    def matrices(self) -> tuple[bool, ...]:
        """Which tensors take Muon's step, and so have no second moment."""
        return tuple(
            self.has_muon and len(shape) == 2 and not any(part in name for part in OUTSIDE)
            for name, shape in zip(self.names, self.shapes, strict=True)
        )

    @property
    def sizes(self) -> tuple[int, ...]:
        """Elements of each tensor."""
        return tuple(math.prod(shape) for shape in self.shapes)

    @property
    def size(self) -> int:
        """Elements of the vector."""
        return sum(self.sizes)

    @property
    def moment_sizes(self) -> tuple[int, int]:
        """Elements of each moment: the second one leaves out the tensors of Muon."""
        return self.size, sum(self._square_sizes)

    @property
    def _square_sizes(self) -> list[int]:
        return [0 if is_matrix else size for size, is_matrix in zip(self.sizes, self.matrices, strict=True)]

    def views(self, vector: Tensor) -> list[Tensor]:
        """The tensors in a vector; they share its memory."""
        parts = torch.split(vector, list(self.sizes))
        return [part.view(shape) for part, shape in zip(parts, self.shapes, strict=True)]

    def square_views(self, vector: Tensor) -> list[Tensor | None]:
        """The tensors in a second moment, None for those that have none; they share its memory."""
        parts = zip(torch.split(vector, self._square_sizes), self.shapes, self.matrices, strict=True)
        return [None if is_matrix else part.view(shape) for part, shape, is_matrix in parts]

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
    moments: tuple[Tensor, Tensor]  # averages of the gradient and of its square, `Layout.moment_sizes`
    gradient_norm: float | None = None  # of the update that led here; None: no update did, or the state was loaded

    def with_own_moments(self) -> "State":
        """The same state with copies of its moments, which may be changed in place; the parameters are shared."""
        mean, square = self.moments
        return replace(self, moments=(mean.clone(), square.clone()))
