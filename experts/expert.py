"""One expert: a feed-forward block on rows of the bottleneck's width, as each host computes it."""

import torch
from torch import Tensor, nn


class Expert(nn.Module):
    """LayerNorm, a hidden layer with GELU, and back; no residual, because the layer adds its sum to the trunk's."""

    def __init__(self, width: int, hidden: int):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.into, self.out = nn.Linear(width, hidden), nn.Linear(hidden, width)

    def forward(self, rows: Tensor) -> Tensor:
        """(rows, width) -> (rows, width)."""
        hidden: Tensor = self.out(nn.functional.gelu(self.into(self.norm(rows))))
        return hidden


def new_expert(width: int, hidden: int, seed: int) -> Expert:
    """An expert whose start everybody can make again from its seed."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return Expert(width, hidden)
