"""An expert with its own optimizer, which takes a step whenever gradients come.

Source: Ryabinin and Gusev 2020, section 3.3: experts are updated asynchronously, each when its batch is there, and a
backward call computes the outputs again, so that a host keeps nothing between the two calls.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from experts.grid import Uid
from experts.host.settings import ExpertSettings


class NotFinite(ValueError):
    """Numbers that are not finite came in, or came of it."""


@dataclass(frozen=True, eq=False)
class Gradients:
    """What one caller sends back."""

    inputs: Tensor  # (rows, width), as in the forward call
    outputs: Tensor  # of the loss with respect to the outputs, of the same shape
    is_fresh: Sequence[bool]  # for each row whether it counts for the step

    @property
    def counted(self) -> Tensor:
        """The gradients of the rows that count; zero for the others."""
        return self.outputs * torch.tensor(self.is_fresh, dtype=self.outputs.dtype).unsqueeze(1)


class TrainedExpert:
    """One expert, its Adam, and its version, which counts the steps."""

    def __init__(self, uid: Uid, settings: ExpertSettings, version: int = 0):
        self.settings, self.version = settings, version
        self.network = settings.new(uid)
        self.parameters = list(self.network.parameters())
        self.optimizer = torch.optim.Adam(self.parameters, lr=settings.learning_rate, fused=True)

    def forward(self, rows: Tensor) -> Tensor:
        """(rows, width) -> (rows, width)."""
        with torch.no_grad():
            outputs: Tensor = self.network(rows)
        return outputs

    def is_fresh(self, version: int) -> bool:
        """Whether a gradient counts whose forward call had this version; a standby's may be behind that."""
        return abs(self.version - version) <= self.settings.max_staleness

    def backward(self, callers: Sequence[Gradients], schedule_factor: float = 1.0) -> list[Tensor | NotFinite]:
        """Answer several callers, then take one step.

        What each caller adds to the step is clipped to `max_grad_norm`. The norm is that of the rows' gradient as if
        they were alone, so no caller's rows change what another one adds.

        Args:
            schedule_factor: what the learning rate is multiplied by.

        Returns:
            For each caller the gradients with respect to its inputs, (rows, width), at the parameters before the step;
            or why there are none, and then it has added nothing.
        """
        answers: list[Tensor | NotFinite] = []
        total: list[Tensor] | None = None
        for one in callers:
            try:
                of_inputs, of_parameters = self._gradients(one)
            except NotFinite as error:
                answers.append(error)
                continue
            answers.append(of_inputs)
            if of_parameters is not None:
                total = of_parameters if total is None else list(torch._foreach_add(total, of_parameters))
        if total is not None:
            self._step(total, schedule_factor * self.settings.learning_rate)
        return answers

    def _gradients(self, one: Gradients) -> tuple[Tensor, list[Tensor] | None]:
        with torch.enable_grad():
            inputs = one.inputs.detach().requires_grad_()
            outputs = self.network(inputs)
        if all(one.is_fresh):
            of_inputs, *of_parameters = torch.autograd.grad(outputs, [inputs, *self.parameters], one.outputs)
        else:
            (of_inputs,) = torch.autograd.grad(outputs, [inputs], one.outputs, retain_graph=any(one.is_fresh))
            of_parameters = []
            if any(one.is_fresh):
                of_parameters = list(torch.autograd.grad(outputs, self.parameters, one.counted))
        if not np.isfinite(of_inputs.numpy()).all():  # several times as fast as torch's
            raise NotFinite("gradients of the inputs are not finite")
        return of_inputs, self._clipped(of_parameters) if of_parameters else None

    def _clipped(self, gradients: list[Tensor]) -> list[Tensor]:
        norm = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(gradients)))
        if not norm.isfinite():
            raise NotFinite("gradients of the parameters are not finite")
        scale = min(1.0, self.settings.max_grad_norm / max(float(norm), 1e-12))
        if scale < 1.0:
            torch._foreach_mul_(gradients, scale)
        return gradients

    def _step(self, gradients: list[Tensor], learning_rate: float) -> None:
        if not learning_rate:
            return  # a version counts steps that learned something: it decides which of two hosts goes on
        for parameter, gradient in zip(self.parameters, gradients, strict=True):
            parameter.grad = gradient.contiguous()  # fused Adam takes its layout for granted
        (group,) = self.optimizer.param_groups
        group["lr"] = learning_rate
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.version += 1
