"""Rounds without a network: every member sends its pieces, and the reducer averages them."""

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from averaging.reduce.gradient_buffers import GradientBuffers
from averaging.reduce.gradient_codec import Compression
from averaging.reduce.grid import Grid
from averaging.reduce.reducer import average


def drawn(grid: Grid, seed: int) -> Tensor:
    return torch.from_numpy(np.random.default_rng(seed).standard_normal(grid.elements).astype(np.float32))


def sender(grid: Grid, kind: Compression, gradients: Sequence[tuple[Tensor, int]], buffer: int = 0) -> GradientBuffers:
    """Of a member with these sums and weights, all in one buffer."""
    buffers = GradientBuffers(grid, kind)
    for gradient, weight in gradients:
        buffers.add(buffer, gradient.clone(), weight)
    return buffers


def chunks_of_round(
    members: Mapping[str, GradientBuffers], buffers: Mapping[str, Sequence[int]], grid: Grid, kind: Compression
) -> list[bytes]:
    """What the reducers of all parts send to everybody."""
    plan = sorted(members)
    weights = {session: members[session].weight(buffers[session]) for session in plan}
    chunks = []
    for chunk in range(grid.count):
        pieces = [(session, members[session].piece(buffers[session], chunk)) for session in plan]
        mean = average(grid, kind, pieces, chunk, weights)
        assert not mean.excluded
        chunks.append(mean.encoded)
    return chunks
