"""One batch forward and backward; its gradient goes to the swarm."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from averaging.optimizer import CollaborativeOptimizer
from experts.calls import ExpertCaller
from experts.layer.mixture import BatchCounts
from trainer.data import Batch
from trainer.model import PretrainingModel, compile_layers
from trainer.precision import Precision


@dataclass(frozen=True)
class BatchResult:
    """What became of one batch."""

    samples: int
    seconds: float  # that it took
    loss: float  # of the masked tokens, in nats
    is_finite: bool  # loss and gradient are numbers
    is_overflow: bool  # only the gradient is not: the loss was scaled by too much for 16 bits
    counts: bool  # its gradient is in the swarm's next update, or the one after


class Interrupted(Exception):
    """A batch was given up, because the trainer has to pause or to leave."""


class TrainingStep:
    """Made once for a model, then called with each batch.

    Args:
        experts: reaches those of the run, if it has any.
        interrupted: whether to give the batch up, which is asked between its layers; None: no batch takes long.
    """

    def __init__(
        self,
        model: PretrainingModel,
        optimizer: CollaborativeOptimizer,
        precision: Precision,
        experts: ExpertCaller | None = None,
        *,
        compile: bool,
        interrupted: Callable[[], bool] | None = None,
    ):
        self._model, self._optimizer, self._precision = model, optimizer, precision
        if compile:
            compile_layers(model)
        self._scaler = precision.scaler()
        self._scaled = torch.optim.SGD(model.parameters(), lr=0.0)  # tells the scaler which gradients; never stepped
        if experts is not None and model.expert_term is not None:
            model.expert_term.mixture.caller, model.expert_term.mixture.counts = experts, BatchCounts()
            model.expert_term.mixture.loss_scale = self._scaler.get_scale
        if interrupted is not None and not compile:  # a compiled model would fall apart at each question
            ask_between_layers(model, interrupted)

    def __call__(self, batch: Batch) -> BatchResult:
        """Compute the gradient with the swarm's newest parameters.

        Raises:
            Interrupted: the batch was given up; it counts nowhere.
            RuntimeError: among others, it does not fit into the device's memory; it counts nowhere.
        """
        began, optimizer, masked = time.monotonic(), self._optimizer, 0
        optimizer.begin_batch()
        try:
            self._model.zero_grad(set_to_none=True)
            with self._precision.autocast():
                losses = self._model(batch.to(self._precision.device))
            self._scaler.scale(losses.loss).backward()
            loss = float(losses.masked_lm_loss.detach())
            is_finite = self._unscaled_gradient_is_finite() and math.isfinite(loss)
            masked = batch.masked if is_finite else 0
        finally:
            counts = optimizer.end_batch(masked, batch.samples, loss) if masked else optimizer.end_batch(0)
        is_overflow = not is_finite and math.isfinite(loss) and self._scaler.is_enabled()
        return BatchResult(batch.samples, time.monotonic() - began, loss, is_finite, is_overflow, counts)

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        return self._precision.device

    def _unscaled_gradient_is_finite(self) -> bool:
        """Whether it is, and so is its sum over the masked tokens: a norm above 1e20 overflows."""
        if self._scaler.is_enabled():
            self._scaler.unscale_(self._scaled)
            self._scaler.update()
        gradients = [one.grad for one in self._model.parameters() if one.grad is not None]
        return bool(torch.isfinite(torch.stack(torch._foreach_norm(gradients)).sum()))


def ask_between_layers(model: nn.Module, interrupted: Callable[[], bool]) -> None:
    """Have each layer raise `Interrupted` before it computes, forward and backward, if the answer is yes."""

    def ask() -> None:
        if interrupted():
            raise Interrupted

    def before(_layer: nn.Module, _inputs: Any) -> None:
        ask()

    def after(_layer: nn.Module, _inputs: Any, output: Any) -> None:
        if isinstance(output, Tensor) and output.requires_grad:
            output.register_hook(lambda _: ask())

    for layer in model.modules():
        if not any(True for _ in layer.children()):
            layer.register_forward_pre_hook(before)
            layer.register_forward_hook(after)
