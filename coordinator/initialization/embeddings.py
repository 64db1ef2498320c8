"""Vectors for the tokens of a new vocabulary from those of an old one, which shares some of its tokens."""

from collections.abc import Mapping

import torch
from torch import Tensor

ROWS = 1024  # tokens whose similarities are computed together: 1024 x 32,000 of them take 128 MB


def means_of_similar(old: Tensor, shared: Mapping[int, int], vectors: Tensor) -> Tensor:
    """Rows for all new tokens: shared ones keep theirs, the others have weighted means of shared tokens' (FOCUS).

    The weights are sparsemax of the cosines between static vectors of the new tokens (Dobler and de Melo 2023,
    arXiv:2305.14481).

    Args:
        old: [old vocabulary, width].
        shared: new token -> old token; at least one of them has a vector.
        vectors: [new vocabulary, any]; a token whose vector is zero is like all others.
    """
    size = len(vectors)
    new_ids, old_ids = torch.tensor(list(shared)), torch.tensor(list(shared.values()))
    directions = torch.nn.functional.normalize(vectors)
    anchors = new_ids[directions[new_ids].any(1)]
    anchor_rows = old[[shared[token] for token in anchors.tolist()]]
    rows = torch.empty(size, old.shape[1])
    for first in range(0, size, ROWS):
        rows[first : first + ROWS] = sparsemax(directions[first : first + ROWS] @ directions[anchors].T) @ anchor_rows
    rows[new_ids] = old[old_ids]
    return rows


def with_old_moments(old: Tensor, shared: Mapping[int, int], vectors: Tensor) -> Tensor:
    """Rows for all new tokens: shared ones keep theirs, the others have mean and covariance of the old ones.

    WECHSEL (Minixhofer et al. 2022, arXiv:2112.06598) draws at random where it knows nothing else. Here static vectors
    of the new tokens, scaled, take the place of what is drawn, as far as the text has the tokens: those that are alike
    in the text are alike from the first step.

    Args:
        old: [old vocabulary, width].
        shared: new token -> old token.
        vectors: [new vocabulary, any].
    """
    mean, scales, axes = moments(old)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        standard = torch.randn(len(vectors), old.shape[1])
    others = torch.tensor([token for token in range(len(vectors)) if token not in shared and vectors[token].any()])
    if len(others) > 1:
        known_mean, known_scales, known_axes = moments(vectors[others])
        width = min(len(others) - 1, len(known_scales), standard.shape[1])
        whitened = (vectors[others] - known_mean) @ known_axes[:, :width] / known_scales[:width].clamp(min=1e-6)
        standard[others, :width] = whitened
    rows = mean + standard * scales @ axes.T
    rows[list(shared)] = old[list(shared.values())]
    return rows


def moments(rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Mean, and standard deviations along principal axes, the largest first: [width], [width], [width, width]."""
    mean = rows.mean(0)
    variances, axes = torch.linalg.eigh(torch.cov(rows.T))
    return mean, variances.clamp(min=0.0).sqrt().flip(0), axes.flip(1)


def sparsemax(scores: Tensor) -> Tensor:
    """The point of the simplex nearest to each row (Martins and Astudillo 2016, algorithm 1), same shape."""
    ordered, _ = scores.sort(dim=-1, descending=True)
    sums = ordered.cumsum(-1)
    ranks = torch.arange(1, scores.shape[-1] + 1)
    support = (1 + ranks * ordered > sums).sum(-1, keepdim=True)
    threshold = (sums.gather(-1, support - 1) - 1) / support
    return (scores - threshold).clamp(min=0.0)
