"""LAMB with linear warm-up and decay by global step (You et al. 2020, as ALBERT and sahajBERT used it)."""

from collections.abc import Iterable
from typing import Any

import torch

from swarm.run_file import OptimizerSection


def make_lamb(settings: OptimizerSection, parameters: Iterable[dict[str, Any]]) -> torch.optim.Optimizer:
    """LAMB over parameter groups, its state allocated but no step taken.

    hivemind shares optimizer state by position, so every tensor of it has to exist from the start.
    It would allocate by taking a step, which moves the weights by their decay; we do it at a
    learning rate of zero and set the step count back.
    """
    from pytorch_optimizer import Lamb

    optimizer = Lamb(
        list(parameters),
        lr=settings.learning_rate,
        betas=settings.betas,
        eps=settings.epsilon,
        weight_decay=settings.weight_decay,
        max_grad_norm=settings.max_gradient_norm,
        adam=not settings.trust_ratio,
        pre_norm=True,  # the averaged gradient is scaled down to max_gradient_norm, as in the paper's code
    )
    gradients = [parameter.grad for group in optimizer.param_groups for parameter in group["params"]]
    for group in optimizer.param_groups:
        group["lr"] = 0.0
        for parameter in group["params"]:
            parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    restored = iter(gradients)
    for group in optimizer.param_groups:
        group["lr"], group["step"] = settings.learning_rate, 0
        for parameter in group["params"]:
            parameter.grad = next(restored)
    return optimizer


def learning_rate_at(settings: OptimizerSection, step: int) -> float:
    """The learning rate of global step `step`, counted from 0: linear warm-up, then linear decay to zero."""
    if step < settings.warmup_steps:
        return settings.learning_rate * (step + 1) / settings.warmup_steps
    left = (settings.total_steps - step) / (settings.total_steps - settings.warmup_steps)
    return settings.learning_rate * max(0.0, left)
