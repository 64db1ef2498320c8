"""LAMB as an optimizer of torch, with which benchmarks and tests compare the step of the log."""

from collections.abc import Iterable
from typing import Any

import torch

from averaging.optimizers.lamb import move_tensor
from averaging.optimizers.state_step import gradient_scale, total_norm
from swarm.run_file import OptimizerSection
from swarm.run_file.fingerprint import OPTIMIZER_VERSION


class Lamb(torch.optim.Optimizer):
    """The step count is in the parameter groups."""

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
        scale = gradient_scale(total_norm(gradients), self.settings.max_gradient_norm)
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


def parameter_groups(model: torch.nn.Module, weight_decay: float) -> list[dict[str, Any]]:
    """Of a model, for LAMB: biases and layer norms (all that have one dimension) do not decay."""
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    return [
        {"params": [one for one in parameters if one.dim() > 1], "weight_decay": weight_decay},
        {"params": [one for one in parameters if one.dim() <= 1], "weight_decay": 0.0},
    ]
