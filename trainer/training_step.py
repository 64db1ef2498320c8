"""One batch forward and backward; its gradient goes to the swarm."""

import math
from dataclasses import dataclass

import torch

from averaging.optimizer import CollaborativeOptimizer
from experts.calls import ExpertCaller
from experts.layer.mixture import BatchCounts
from trainer.data import Batch
from trainer.model import PretrainingModel
from trainer.precision import Precision


@dataclass(frozen=True)
class BatchResult:
    """What became of one batch."""

    samples: int
    loss: float  # of the masked tokens, in nats
    is_finite: bool  # loss and gradient are numbers
    counts: bool  # its gradient is in the swarm's next update, or the one after


class TrainingStep:
    """Made once for a model, then called with each batch.

    Args:
        experts: reaches those of the run, if it has any.
    """

    def __init__(
        self,
        model: PretrainingModel,
        optimizer: CollaborativeOptimizer,
        precision: Precision,
        experts: ExpertCaller | None = None,
        *,
        compile: bool,
    ):
        self._model, self._optimizer, self._precision = model, optimizer, precision
        self._forward = torch.compile(model) if compile else model
        self._scaler = precision.scaler()
        self._scaled = torch.optim.SGD(model.parameters(), lr=0.0)  # tells the scaler which gradients; never stepped
        if experts is not None and model.expert_term is not None:
            model.expert_term.mixture.caller, model.expert_term.mixture.counts = experts, BatchCounts()
            model.expert_term.mixture.loss_scale = self._scaler.get_scale

    def __call__(self, batch: Batch) -> BatchResult:
        """Compute the gradient with the swarm's newest parameters."""
        optimizer, masked = self._optimizer, 0
        optimizer.begin_batch()
        try:
            self._model.zero_grad(set_to_none=True)
            with self._precision.autocast():
                losses = self._forward(batch.to(self._precision.device))
            self._scaler.scale(losses.loss).backward()
            loss = float(losses.masked_lm_loss.detach())
            is_finite = self._unscaled_gradient_is_finite() and math.isfinite(loss)
            masked = batch.masked if is_finite else 0
        finally:
            counts = optimizer.end_batch(masked, batch.samples, loss) if masked else optimizer.end_batch(0)
        return BatchResult(batch.samples, loss, is_finite, counts)

    def _unscaled_gradient_is_finite(self) -> bool:
        if self._scaler.is_enabled():
            self._scaler.unscale_(self._scaled)
            self._scaler.update()
        gradients = [one.grad for one in self._model.parameters() if one.grad is not None]
        return bool(torch.isfinite(torch.stack(torch._foreach_norm(gradients)).sum()))
