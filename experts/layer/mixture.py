"""The layer that adds the answers of experts elsewhere to the rows of a trunk.

Source: Ryabinin and Gusev 2020, section 3, with a learned bottleneck around what travels:
`added = up(sum over the experts of a row: weight * expert(down(row)))`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

from experts.calls import ExpertCaller
from experts.grid import Grid
from experts.layer.calling import call_experts
from experts.layer.gate import Choice, ProductGate, Selection, balancing_loss, best_alive, weights_of

OFF_SHARE = 0.15  # of the training batches
USUAL_ROWS = 1024  # of a batch; experts are given the gradient of the mean loss where it has so many


class Mixture(NamedTuple):
    """What the layer gives for N rows."""

    added: Tensor  # (N, width of the trunk): to be added to the trunk's rows
    balancing_loss: Tensor  # a scalar: to be added to the loss, times a small factor


@dataclass
class BatchCounts:
    """Training batches in which experts were not off."""

    batches: int = 0
    whole: int = 0  # in which each row had answers of as many experts as it may have


class MixtureOfExperts(nn.Module):
    """A gate, and the way of rows to experts and back; it never raises because of experts.

    A fresh layer adds zero, and so does one whose experts are all silent. In some training batches all experts are
    off, so that the trunk alone stays a good model. What this module holds is trained as all parameters of the trunk;
    experts are trained on their hosts, when the gradient of their outputs comes back.
    """

    def __init__(
        self,
        trunk_width: int,
        width: int,
        grid: Grid,
        caller: ExpertCaller,
        *,
        experts_of_a_row: int = 2,
        off_share: float = OFF_SHARE,
        select: Selection | None = None,
    ):
        """Make a fresh layer.

        Args:
            trunk_width: of the rows that it is given.
            width: of the rows that travel.
            caller: reaches the experts; may be replaced by another one.
            experts_of_a_row: at most.
            off_share: part of the training batches without experts, drawn from torch's random numbers.
            select: finds the best experts; by default it looks at all that `caller` believes alive.
        """
        super().__init__()
        self.gate = ProductGate(trunk_width, grid)
        self.down = nn.Linear(trunk_width, width)
        self.up = nn.Linear(width, trunk_width, bias=False)
        nn.init.zeros_(self.up.weight)
        self.experts_of_a_row, self.off_share = experts_of_a_row, off_share
        self.caller, self.counts = caller, BatchCounts()
        self.loss_scale: Callable[[], float] = lambda: 1.0  # by what the loss is multiplied for its backward pass
        self._select = select or (lambda scores, count: best_alive(scores, self.caller.alive(), count))

    def forward(self, rows: Tensor) -> Mixture:
        """Call the experts of all rows, one batch for each expert.

        Args:
            rows: (N, width of the trunk).
        """
        if self.training and float(torch.rand(())) < self.off_share:
            return Mixture(torch.zeros_like(rows), rows.new_zeros(()))
        scores = self.gate(rows)
        choice = self._choose(scores)
        # losses are means; in the experts' steps a batch counts by its rows, as in the global step
        divisor = self.loss_scale() * USUAL_ROWS / max(1, len(rows))
        outputs, answered = call_experts(self.caller, self.down(rows), choice, divisor)
        if self.training:
            self.counts.batches += 1
            self.counts.whole += int(answered.sum()) == len(rows) * self.experts_of_a_row
        mixed = (weights_of(scores, choice, answered).unsqueeze(2) * outputs).sum(dim=1)
        return Mixture(self.up(mixed.to(rows.dtype)), balancing_loss(scores, choice))

    def _choose(self, scores: tuple[Tensor, ...]) -> Choice:
        choice = self._select([one.detach().cpu() for one in scores], self.experts_of_a_row)
        device = scores[0].device
        return Choice(choice.coordinates.to(device), tuple(one.to(device) for one in choice.living))
