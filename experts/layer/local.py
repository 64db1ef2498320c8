"""Experts in this process: for tests and figures, and for a release that is used on one machine."""

import random
from collections import deque
from collections.abc import Collection, Mapping, Sequence

import torch
from torch import Tensor, nn

from experts.expert import Expert
from experts.grid import Uid

LEARNING_RATE = 1e-3

Gradients = tuple[Tensor, ...]  # of an expert's parameters


class LocalExperts:
    """Reaches experts of this process, each of which has its own optimizer, Adam.

    A gradient may be as old as in a swarm: with a `delay` of n it is applied only after n further backward calls,
    which meanwhile see the parameters as they were.
    """

    def __init__(
        self,
        experts: Mapping[Uid, Expert],
        *,
        learning_rate: float | None = LEARNING_RATE,
        delay: int = 0,
        failures: float = 0.0,
        seed: int = 0,
    ):
        """Hold experts.

        Args:
            learning_rate: of each expert's Adam; None: they do not learn.
            delay: backward calls between a gradient and its step.
            failures: the probability that a call to one expert is lost, in each direction.
            seed: of the calls that are lost.
        """
        self._experts = dict(experts)
        self._optimizers = {} if learning_rate is None else _optimizers(experts, learning_rate)
        self._learning_rate = learning_rate or 0.0
        self.schedule_factor = 1.0  # what the learning rate is multiplied by
        self._delay, self._waiting = delay, deque[dict[Uid, Gradients]]()
        self._failures, self._random = failures, random.Random(seed)

    def alive(self) -> Collection[Uid]:
        """All that were not lost."""
        return self._experts.keys()

    def lose(self, uids: Collection[Uid]) -> None:
        """Let experts vanish, with what they learned."""
        for uid in uids:
            self._experts.pop(uid, None)
            self._optimizers.pop(uid, None)

    def forward(self, inputs: Mapping[Uid, Tensor]) -> dict[Uid, Tensor]:
        """Outputs of the experts whose calls were not lost."""
        with torch.no_grad():
            return {uid: expert(rows) for uid, expert, rows in self._reached(inputs)}

    def backward(self, inputs: Mapping[Uid, Tensor], gradients: Mapping[Uid, Tensor]) -> dict[Uid, Tensor]:
        """Gradients of the inputs; the experts' own are computed at the parameters of now and applied in their turn."""
        of_inputs: dict[Uid, Tensor] = {}
        of_parameters: dict[Uid, Gradients] = {}
        for uid, expert, rows in self._reached(inputs):
            parameters = list(expert.parameters()) if uid in self._optimizers else []
            of_inputs[uid], of_parameters[uid] = vector_jacobian(expert, rows, gradients[uid], parameters)
        self._waiting.append(of_parameters)
        if len(self._waiting) > self._delay:
            self._step(self._waiting.popleft())
        return of_inputs

    def _reached(self, inputs: Mapping[Uid, Tensor]) -> Sequence[tuple[Uid, Expert, Tensor]]:
        reached = [(uid, rows) for uid, rows in inputs.items() if self._random.random() >= self._failures]
        return [(uid, self._experts[uid], rows) for uid, rows in reached if uid in self._experts]

    def _step(self, gradients: Mapping[Uid, Gradients]) -> None:
        for uid, of_expert in gradients.items():
            if uid not in self._optimizers:
                continue
            for parameter, gradient in zip(self._experts[uid].parameters(), of_expert, strict=True):
                parameter.grad = gradient
            (group,) = self._optimizers[uid].param_groups
            group["lr"] = self.schedule_factor * self._learning_rate
            self._optimizers[uid].step()


def vector_jacobian(
    expert: nn.Module, rows: Tensor, gradients: Tensor, parameters: Sequence[Tensor]
) -> tuple[Tensor, Gradients]:
    """Backward through an expert, whose outputs are computed again.

    Args:
        rows: (rows, width).
        gradients: with respect to the outputs, of the same shape.
        parameters: those that learn.

    Returns:
        Gradients with respect to the rows, and to each of the parameters.
    """
    with torch.enable_grad():
        rows = rows.detach().requires_grad_()
        of_rows, *of_parameters = torch.autograd.grad(expert(rows), [rows, *parameters], gradients)
    return of_rows, tuple(of_parameters)


def _optimizers(experts: Mapping[Uid, Expert], learning_rate: float) -> dict[Uid, torch.optim.Adam]:
    return {uid: torch.optim.Adam(expert.parameters(), lr=learning_rate) for uid, expert in experts.items()}
