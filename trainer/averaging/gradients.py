"""Averaging gradients in a group of peers."""

from typing import Any

from hivemind.optim.grad_averager import GradientAverager

from trainer.averaging.claims import believed_weight
from trainer.averaging.groups import StepwiseAverager


class SwarmGradientAverager(GradientAverager, StepwiseAverager):
    """hivemind's gradient averager; it does not hand out gradients as if they were a state."""

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs, allow_state_sharing=False)

    def step(self, weight: float | None = None, **kwargs: Any) -> Any:  # type: ignore[override]
        """See upstream; the others would not take more than `heaviest` either."""
        own = self.local_samples_accumulated if weight is None else weight
        return super().step(believed_weight(own, self.heaviest), **kwargs)
