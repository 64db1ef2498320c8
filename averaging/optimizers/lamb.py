"""LAMB (You et al. 2020, algorithm 2), as sahajBERT used it.

Adam's update of each tensor and its decay, together scaled to the norm of the tensor's weights. First the gradients of
all tensors are scaled down to `max_gradient_norm`. Where `name` is not lamb, updates are not scaled, and this is AdamW.
sahajBERT's code bounds the norm of weights by 10,000, which its model never reaches, and corrects the size of the step,
not the averages, for their beginning at zero: its learning rate was 0.15 to 0.98 of the planned one in the first 3,000
of 5,000 steps of warm-up.

Every peer takes the same step from the same gradient, so the numbers here are part of the run: a change that moves
them needs another `OPTIMIZER_VERSION` (`swarm/fingerprint.py`). Everything is in float32, and the same to the bit for
any number of threads.
"""

import math
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from swarm.fingerprint import OPTIMIZER_VERSION
from swarm.run_file import OptimizerSection


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
    ratio = _trust_ratio(parameter, update) if settings.name == "lamb" else 1.0
    parameter.add_(update, alpha=-learning_rate * ratio)


class Lamb(torch.optim.Optimizer):
    """The same as an optimizer of torch.

    For benchmarks and tests; a run uses `state_step.py`. The step count is in the parameter groups.
    """

    def __init__(self, settings: OptimizerSection, parameters: Iterable[dict[str, Any]]):
        defaults = {"lr": settings.learning_rate, "weight_decay": settings.weight_decay, "step": 0}
        super().__init__(parameters, defaults)
        self.settings = settings  # not in the groups: a loaded state does not change them
        for group in self.param_groups:
            for parameter in group["params"]:
                averages = {name: torch.zeros_like(parameter) for name in ("exp_avg", "exp_avg_sq")}
                self.state[parameter].update(averages)

    def state_dict(self) -> dict[str, Any]:
        """See torch; `version` says which algorithm the averages belong to."""
        return super().state_dict() | {"version": OPTIMIZER_VERSION}

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Take one step; gradients are left as they are, and tensors without one too."""
        gradients = [one.grad for group in self.param_groups for one in group["params"] if one.grad is not None]
        scale = gradient_scale(gradients, self.settings.max_gradient_norm)
        for group in self.param_groups:
            group["step"] += 1
            for parameter in group["params"]:
                if parameter.grad is not None:
                    move_tensor(
                        parameter,
                        parameter.grad,
                        self.state[parameter]["exp_avg"],
                        self.state[parameter]["exp_avg_sq"],
                        settings=self.settings,
                        scale=scale,
                        step=group["step"],
                        learning_rate=group["lr"],
                        weight_decay=group["weight_decay"],
                    )


def _trust_ratio(parameter: Tensor, update: Tensor) -> float:
    weights, change = _norm(parameter), _norm(update)
    return weights / change if weights > 0 and change > 0 else 1.0


def _norm(tensor: Tensor) -> float:
    """Added up in float64: in float32 the sum over four million numbers is off by 1e-4."""
    return float(torch.linalg.vector_norm(tensor, dtype=torch.float64))
