"""An expert with its own optimizer, which takes a step whenever gradients come.

Source: Ryabinin and Gusev 2020, section 3.3: experts are updated asynchronously, each when its batch is there, and a
backward call computes the outputs again, so that a host keeps nothing between the two calls.
"""

import math
import statistics
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from experts.grid import Uid
from experts.host.settings import ExpertSettings

REMEMBERED = 64  # norms of gradients; their median is the usual one
MOST_USUAL = 10.0  # a gradient adds as much to a step as one of so many times the usual norm, at most


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
        self._norms = deque[float](maxlen=REMEMBERED)  # of the newest gradients, before they were clipped

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

        What each caller adds to the step is clipped to `max_grad_norm`, and to `MOST_USUAL` times the usual norm: so
        one caller makes Adam's variance at most a tenth larger, and later steps a twentieth shorter. The norm is that
        of the rows' gradient as if they were alone, so no caller's rows change what another one adds.

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
        norm = float(torch.linalg.vector_norm(torch.stack(torch._foreach_norm(gradients))))
        if not math.isfinite(norm):
            raise NotFinite("gradients of the parameters are not finite")
        if norm:  # the first ones of a run are zero, as nothing is added to the trunk yet
            usual = self._usual_norm()
            limit = min(self.settings.max_grad_norm, MOST_USUAL * usual if usual else math.inf)
            self._norms.append(norm)
            if norm > limit:
                torch._foreach_mul_(gradients, limit / norm)
        return gradients

    def _usual_norm(self) -> float:
        """0 before there was a gradient. Of an expert that was just read, Adam's variance remembers it."""
        if not self._norms:
            (group,) = self.optimizer.param_groups
            _, beta = group["betas"]
            moments = self.optimizer.state.values()
            squares = (float(one["exp_avg_sq"].sum()) / (1 - beta ** max(1.0, float(one["step"]))) for one in moments)
            if remembered := math.sqrt(sum(squares)):
                self._norms.append(remembered)
        return statistics.median_low(self._norms) if self._norms else 0.0

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
