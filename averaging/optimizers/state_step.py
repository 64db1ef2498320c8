"""The step of the log: the state after an update, from the state before it and the mean gradient.

Every peer takes the same step from the same gradient, so the numbers here are part of the run: a change that moves
them needs another `OPTIMIZER_VERSION` (`swarm/run_file/fingerprint.py`).
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from averaging.log.state import Layout, State
from averaging.optimizers.lamb import move_tensor, norm
from averaging.optimizers.muon import move_matrix
from averaging.optimizers.schedule import learning_rate_at
from swarm.run_file import OptimizerSection


def initial_state(layout: Layout, parameters: Sequence[Tensor]) -> State:
    """The state of the first header of a run: averages begin at zero.

    Raises:
        ValueError: the tensors are not those of the layout.
    """
    shapes = tuple(tuple(one.shape) for one in parameters)
    if shapes != layout.shapes:
        raise ValueError(f"parameters have shapes {shapes}, the layout {layout.shapes}")
    vector = layout.flat(parameters)
    mean, square = map(torch.zeros, layout.moment_sizes)
    return State(step=0, updates=0, parameters=vector, moments=(mean, square))


class StateOptimizer:
    """LAMB, AdamW or Muon over flat vectors. Equal states and gradients give equal bits, with any number of threads."""

    def __init__(self, layout: Layout, settings: OptimizerSection):
        self.layout, self.settings = layout, settings

    def step(self, state: State, gradient: Tensor) -> State:
        """The state of the next header, in memory of its own.

        Args:
            gradient: the update, of shape [layout.size], float32 on the processor; it is left as it is.

        Raises:
            ValueError: the gradient has another shape or type.
        """
        if gradient.shape != (self.layout.size,) or gradient.dtype != torch.float32:
            raise ValueError(
                f"an update has {self.layout.size} elements of float32, got {gradient.dtype} "
                f"of shape {tuple(gradient.shape)}"
            )
        gradients = self.layout.views(gradient)
        norm = total_norm(gradients)
        common: dict[str, Any] = {
            "settings": self.settings,
            "scale": gradient_scale(norm, self.settings.max_gradient_norm),
            "learning_rate": learning_rate_at(self.settings, state.step),
        }
        # whole vectors are written once, not copied first: new memory is filled by the first operation on each tensor
        first, second = map(torch.empty_like, state.moments)
        after = State(state.step + 1, state.updates + 1, torch.empty_like(state.parameters), (first, second), norm)
        for own, old, new in zip(gradients, self._tensors(state), self._tensors(after), strict=True):
            (parameter, mean, square), (moved, new_mean, new_square) = old, new
            if square is None or new_square is None:
                move_matrix(parameter, own, mean, (moved, new_mean), **common)
            else:
                move_tensor(
                    parameter,
                    own,
                    mean,
                    square,
                    (moved, new_mean, new_square),
                    step=after.updates,
                    weight_decay=self.settings.weight_decay if parameter.dim() > 1 else 0.0,
                    **common,
                )
        return after

    def _tensors(self, state: State) -> Iterator[tuple[Tensor, Tensor, Tensor | None]]:
        """Each parameter, and its moments."""
        mean, square = state.moments
        layout = self.layout
        return zip(layout.views(state.parameters), layout.views(mean), layout.square_views(square), strict=True)


def total_norm(gradients: Iterable[Tensor]) -> float:
    """Of all of them together."""
    return math.sqrt(math.fsum(norm(gradient) ** 2 for gradient in gradients))


def gradient_scale(norm: float, largest: float) -> float:
    """What scales gradients of a norm down to the largest; 1 if theirs is not above it."""
    return largest / max(norm, largest)
