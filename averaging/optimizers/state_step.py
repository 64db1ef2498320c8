"""The step of the log: the state after an update, from the state before it and the mean gradient.

Every peer takes the same step from the same gradient, so the numbers here are part of the run: a change that moves
them needs another `OPTIMIZER_VERSION` (`swarm/run_file/fingerprint.py`).
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

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
        after = replace(state.with_own_moments(), parameters=state.parameters.clone())
        after.step, after.updates = state.step + 1, state.updates + 1
        gradients = self.layout.views(gradient)
        scale = gradient_scale(gradients, self.settings.max_gradient_norm)
        learning_rate = learning_rate_at(self.settings, state.step)
        first, second = after.moments
        vectors = self.layout.views(after.parameters), self.layout.views(first), self.layout.square_views(second)
        for parameter, mean, square, own in zip(*vectors, gradients, strict=True):
            if square is None:
                move_matrix(parameter, own, mean, settings=self.settings, scale=scale, learning_rate=learning_rate)
            else:
                move_tensor(
                    parameter,
                    own,
                    mean,
                    square,
                    settings=self.settings,
                    scale=scale,
                    step=after.updates,
                    learning_rate=learning_rate,
                    weight_decay=self.settings.weight_decay if parameter.dim() > 1 else 0.0,
                )
        return after


def gradient_scale(gradients: Iterable[Tensor], largest: float) -> float:
    """What scales gradients down to this norm; 1 if theirs is not above it."""
    total = math.sqrt(math.fsum(norm(gradient) ** 2 for gradient in gradients))
    return largest / max(total, largest)
