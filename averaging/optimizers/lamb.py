"""LAMB (You et al. 2020, algorithm 2), as sahajBERT used it.

Adam's update of each tensor and its decay, together scaled to the norm of the tensor's weights. Where `name` is not
lamb, updates are not scaled, and this is AdamW.
sahajBERT's code bounds the norm of weights by 10,000, which its model never reaches, and corrects the size of the step,
not the averages, for their beginning at zero: its learning rate was 0.15 to 0.98 of the planned one in the first 3,000
of 5,000 steps of warm-up.

Everything is in float32, and the same to the bit for any number of threads.
"""

import math

import torch
from torch import Tensor

from swarm.run_file import OptimizerSection


@torch.no_grad()
def move_tensor(
    parameter: Tensor,
    gradient: Tensor,
    mean: Tensor,
    square: Tensor,
    into: tuple[Tensor, Tensor, Tensor],
    *,
    settings: OptimizerSection,
    scale: float,
    step: int,
    learning_rate: float,
    weight_decay: float,
) -> None:
    """Take the step of one tensor. torch's operations on lists are no faster here, and take more memory.

    Args:
        mean: the running average of the gradient.
        square: that of its square.
        into: get the new parameter, mean and square.
        scale: of the gradient.
        step: counted from 1.
    """
    moved, new_mean, new_square = into
    beta1, beta2 = settings.betas
    torch.mul(mean, beta1, out=new_mean).add_(gradient, alpha=(1 - beta1) * scale)
    torch.mul(square, beta2, out=new_square).addcmul_(gradient, gradient, value=(1 - beta2) * scale**2)
    # the corrections for averages that begin at zero, without a pass of their own over the tensors
    correction = math.sqrt(1 - beta2**step)
    update = new_square.sqrt().add_(settings.epsilon * correction)
    torch.div(new_mean, update, out=update).mul_(correction / (1 - beta1**step)).add_(parameter, alpha=weight_decay)
    ratio = _trust_ratio(parameter, update) if settings.name == "lamb" else 1.0
    torch.add(parameter, update, alpha=-learning_rate * ratio, out=moved)


def _trust_ratio(parameter: Tensor, update: Tensor) -> float:
    weights, change = norm(parameter), norm(update)
    return weights / change if weights > 0 and change > 0 else 1.0


def norm(tensor: Tensor) -> float:
    """Added up in float64: in float32 the sum over four million numbers is off by 1e-4."""
    return float(torch.linalg.vector_norm(tensor, dtype=torch.float64))
