"""`sahaj join` of a changed program, which multiplies its gradients."""

from typing import Any

import torch

from averaging.optimizer import CollaborativeOptimizer
from tests.support.small_swarm import run_closely

TIMES = -10.0


def run_loudly(arguments: list[str]) -> None:
    """Be such a trainer."""
    end_batch = CollaborativeOptimizer.end_batch

    def lie(self: CollaborativeOptimizer, tokens: int, *args: Any, **kwargs: Any) -> bool:
        torch._foreach_mul_([one.grad for one in self._parameters if one.grad is not None], TIMES)
        return end_batch(self, tokens, *args, **kwargs)

    CollaborativeOptimizer.end_batch = lie  # type: ignore[method-assign, assignment]
    run_closely(arguments)
