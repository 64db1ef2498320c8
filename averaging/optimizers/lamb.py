"""The step of the log: LAMB (You et al. 2020, algorithm 2), as sahajBERT used it.

Adam's update of each tensor and its decay, together scaled to the norm of the tensor's weights. First the gradients of
all tensors are scaled down to `max_gradient_norm`. With `trust_ratio: false` updates are not scaled, and this is AdamW.
sahajBERT's code bounds the norm of weights by 10,000, which its model never reaches, and corrects the size of the step,
not the averages, for their beginning at zero: its learning rate was 0.15 to 0.98 of the planned one in the first 3,000
of 5,000 steps of warm-up.

Every peer takes the same step from the same gradient, so the numbers here are part of the run: a change that moves
them needs another `OPTIMIZER_VERSION` (`swarm/fingerprint.py`). Everything is in float32, and the same to the bit for
any number of threads.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from averaging.log.state import Layout, State
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


def learning_rate_at(settings: OptimizerSection, step: int) -> float:
    """Of a global step, counted from 0: linear warm-up, then linear decay to zero, as sahajBERT had it."""
    if step < settings.warmup_steps:
        return settings.learning_rate * (step + 1) / settings.warmup_steps
    left = (settings.total_steps - step) / (settings.total_steps - settings.warmup_steps)
    return settings.learning_rate * max(0.0, left)


def gradient_scale(gradients: Iterable[Tensor], largest: float) -> float:
    """What scales gradients down to this norm; 1 if theirs is not above it."""
    norm = math.sqrt(math.fsum(_norm(gradient) ** 2 for gradient in gradients))
    return largest / max(norm, largest)


@torch.no_grad()
def move_tensor(
    parameter: Tensor,
    gradient: Tensor,
    mean: Tensor,
    square: Tensor,
    *,
    settings: OptimizerSection,
    scale: float,
    step: int,
    learning_rate: float,
    weight_decay: float,
) -> None:
    """Take the step of one tensor in place. torch's operations on lists are no faster here, and take more memory.

    Args:
        mean: the running average of the gradient.
        square: that of its square.
        scale: of the gradient, see `gradient_scale`.
        step: counted from 1.
    """
    beta1, beta2 = settings.betas
    mean.mul_(beta1).add_(gradient, alpha=(1 - beta1) * scale)
    square.mul_(beta2).addcmul_(gradient, gradient, value=(1 - beta2) * scale**2)
    # the corrections for averages that begin at zero, without a pass of their own over the tensors
    correction = math.sqrt(1 - beta2**step)
    update = square.sqrt().add_(settings.epsilon * correction)
    torch.div(mean, update, out=update).mul_(correction / (1 - beta1**step)).add_(parameter, alpha=weight_decay)
    ratio = _trust_ratio(parameter, update) if settings.trust_ratio else 1.0
    parameter.add_(update, alpha=-learning_rate * ratio)


def _trust_ratio(parameter: Tensor, update: Tensor) -> float:
    weights, change = _norm(parameter), _norm(update)
    return weights / change if weights > 0 and change > 0 else 1.0


def _norm(tensor: Tensor) -> float:
    """Added up in float64: in float32 the sum over four million numbers is off by 1e-4."""
    return float(torch.linalg.vector_norm(tensor, dtype=torch.float64))
