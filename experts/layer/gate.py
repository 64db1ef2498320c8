"""The gate: which experts a row goes to, and how much each of them counts.

Source: the product gate of Ryabinin and Gusev 2020, section 3.2. A linear function scores the coordinates of each
dimension of the grid, and the score of an expert is the sum over its coordinates, so the gate has as many outputs as
the dimensions are long together, not one for each expert. The weights are a softmax over those that answered.
"""

from collections.abc import Collection, Sequence
from typing import NamedTuple, Protocol

import torch
from torch import Tensor, nn

from experts.grid import Grid, Uid, is_inside

AT_ONCE = 1 << 22  # sums of scores in memory while the best are chosen
NONE = -1  # stands for each coordinate of an expert that a row does not have


class Choice(NamedTuple):
    """Experts for each of N rows, the best first."""

    coordinates: Tensor  # int64, (N, experts of a row, dimensions); NONE where there is no such expert
    living: tuple[Tensor, ...]  # bool, (length of the dimension) each: coordinates that some living expert has

    @property
    def is_there(self) -> Tensor:
        """bool, (N, experts of a row)."""
        return self.coordinates[..., 0] != NONE


class Selection(Protocol):
    """Finds the living experts with the highest scores."""

    def __call__(self, scores: Sequence[Tensor], count: int) -> Choice:
        """Choose at most `count` for each row.

        Args:
            scores: of coordinates, on the CPU and without gradients: (N, length of the dimension) each.
        """


class ProductGate(nn.Module):
    """Scores of coordinates, linear in a row of the trunk."""

    def __init__(self, width: int, grid: Grid):
        super().__init__()
        self.grid = grid
        self.score = nn.Linear(width, sum(grid))

    def forward(self, rows: Tensor) -> tuple[Tensor, ...]:
        """(N, width) -> float32, (N, length of the dimension) for each dimension."""
        return self.score(rows).float().split(self.grid, dim=1)


def best_alive(scores: Sequence[Tensor], alive: Collection[Uid], count: int) -> Choice:
    """The exact selection, which looks at every living expert: for grids of up to some thousand.

    What is alive outside of the grid is left out.
    """
    grid = tuple(one.shape[1] for one in scores)
    inside = sorted(uid for uid in alive if is_inside(uid, grid))
    uids = torch.tensor(inside, dtype=torch.int64).reshape(len(inside), len(grid))
    living = tuple(
        torch.zeros(length, dtype=torch.bool).index_fill_(0, uids[:, dimension], True)
        for dimension, length in enumerate(grid)
    )
    rows = max(1, AT_ONCE // max(1, len(inside)))
    best = []
    for some in zip(*(one.split(rows) for one in scores), strict=True):
        sums = torch.stack([one[:, uids[:, dimension]] for dimension, one in enumerate(some)]).sum(0)
        best.append(sums.topk(min(count, len(inside)), dim=1).indices)
    return Choice(uids[torch.cat(best)], living)


def weights_of(scores: Sequence[Tensor], choice: Choice, answered: Tensor) -> Tensor:
    """How much each answer counts: a softmax over those that answered, by the sums of scores.

    Args:
        scores: of coordinates, with gradients.
        answered: bool, (N, experts of a row).

    Returns:
        (N, experts of a row); they sum to one in each row, or are all zero where no expert answered.
    """
    places = choice.coordinates.clamp_min(0)
    sums = torch.stack([one.gather(1, places[..., dimension]) for dimension, one in enumerate(scores)]).sum(0)
    # a finite number, so that a row without answers has no undefined gradient
    weights = sums.masked_fill(~answered, torch.finfo(sums.dtype).min).softmax(dim=1)
    return weights * answered


def balancing_loss(scores: Sequence[Tensor], choice: Choice) -> Tensor:
    """How unevenly rows use the living coordinates of each dimension, at least about zero, a scalar with gradients.

    Source: Fedus et al. 2021, section 2.2, for each dimension instead of for experts: its length times the sum over
    coordinates of (share of the choices) x (mean probability), minus one; averaged over the dimensions. One where
    choices and probabilities are at one of two coordinates.
    """
    there = choice.is_there
    chosen = int(there.sum())
    if not chosen:
        return torch.zeros((), device=scores[0].device)
    losses = []
    for dimension, (one, living) in enumerate(zip(scores, choice.living, strict=True)):
        shares = torch.bincount(choice.coordinates[..., dimension][there], minlength=one.shape[1]) / chosen
        probabilities = one.masked_fill(~living, torch.finfo(one.dtype).min).softmax(dim=1).mean(dim=0)
        losses.append(living.sum() * (shares * probabilities).sum() - 1)
    return torch.stack(losses).mean()
