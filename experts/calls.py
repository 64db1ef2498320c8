"""What the layer asks of those who have the experts: which are alive, their outputs, and their gradients."""

from collections.abc import Collection, Mapping
from typing import Protocol

from torch import Tensor

from experts.grid import Uid


class ExpertCaller(Protocol):
    """Reaches experts, wherever they are. No method raises or waits beyond the caller's timeout."""

    def alive(self) -> Collection[Uid]:
        """Experts that are believed to answer now."""

    def forward(self, inputs: Mapping[Uid, Tensor]) -> dict[Uid, Tensor]:
        """Outputs of those that answered in time.

        Args:
            inputs: float32, (rows, width) for each expert.

        Returns:
            Of the same shapes; an expert that did not answer is missing.
        """

    def backward(self, inputs: Mapping[Uid, Tensor], gradients: Mapping[Uid, Tensor]) -> dict[Uid, Tensor]:
        """Gradients with respect to the inputs.

        Each expert that answers has taken its own step by then, or takes it soon, unless the gradient is too old.

        Args:
            inputs: as they were given to `forward`.
            gradients: of the loss, with respect to the outputs.
        """


class NoExperts:
    """Reaches none: a trainer before it has joined, and the trunk alone."""

    def alive(self) -> Collection[Uid]:
        """None."""
        return ()

    def forward(self, inputs: Mapping[Uid, Tensor]) -> dict[Uid, Tensor]:
        """Nothing answers."""
        return {}

    def backward(self, inputs: Mapping[Uid, Tensor], gradients: Mapping[Uid, Tensor]) -> dict[Uid, Tensor]:
        """Nothing answers."""
        return {}
