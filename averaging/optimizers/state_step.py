"""The step of the log: the state after an update, from the state before it and the mean gradient."""

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from averaging.log.state import Layout, State
from averaging.optimizers.lamb import gradient_scale, move_tensor
from averaging.optimizers.schedule import learning_rate_at
from swarm.run_file import OptimizerSection


def initial_state(layout: Layout, parameters: Sequence[Tensor]) -> State:
    """The state of the first header of a run: LAMB's averages begin at zero.

    Raises:
        ValueError: the tensors are not those of the layout.
    """
    shapes = tuple(tuple(one.shape) for one in parameters)
    if shapes != layout.shapes:
        raise ValueError(f"parameters have shapes {shapes}, the layout {layout.shapes}")
    vector = layout.flat(parameters)
    return State(step=0, updates=0, parameters=vector, moments=(torch.zeros_like(vector), torch.zeros_like(vector)))


class StateOptimizer:
    """LAMB over flat vectors. Equal states and equal gradients give equal bits, with any number of threads."""

    def __init__(self, layout: Layout, settings: OptimizerSection):
        self.layout, self.settings = layout, settings

    def step(self, state: State, gradient: Tensor) -> State:
        """The state of the next header, in memory of its own.

        Args:
            gradient: the update, of shape [layout.size], float32 on the processor; it is left as it is.

        Raises:
            ValueError: the gradient has another shape or type.
        """
        copies = tuple(moment.clone() for moment in state.moments)
        after = replace(state, parameters=state.parameters.clone(), moments=copies)
        self.step_in_place(after, gradient)
        return after

    def step_in_place(self, state: State, gradient: Tensor) -> None:
        """The same in the memory of the state, which nobody else may read meanwhile.

        Raises:
            ValueError: the gradient has another shape or type.
        """
        if gradient.shape != (self.layout.size,) or gradient.dtype != torch.float32:
            raise ValueError(
                f"an update has {self.layout.size} elements of float32, got {gradient.dtype} "
                f"of shape {tuple(gradient.shape)}"
            )
        gradients = self.layout.views(gradient)
        scale = gradient_scale(gradients, self.settings.max_gradient_norm)
        learning_rate = learning_rate_at(self.settings, state.step)
        vectors = (self.layout.views(vector) for vector in (state.parameters, *state.moments))
        for parameter, mean, square, own, decays in zip(*vectors, gradients, self.layout.decays, strict=True):
            move_tensor(
                parameter,
                own,
                mean,
                square,
                settings=self.settings,
                scale=scale,
                step=state.updates + 1,
                learning_rate=learning_rate,
                weight_decay=self.settings.weight_decay if decays else 0.0,
            )
        state.step, state.updates = state.step + 1, state.updates + 1
