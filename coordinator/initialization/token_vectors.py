"""Computes static vectors of tokens by counting which tokens are near each other in text.

Positive pointwise mutual information, factorized: about as good as word2vec (Levy, Goldberg and Dagan 2015, "Improving
Distributional Similarity with Lessons Learned from Word Embeddings"), without anything to train.
"""

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

WINDOW = 5  # tokens on each side; one at distance d counts 1/d, as in GloVe
SMOOTHING = 0.75  # exponent of context counts: without it rare contexts are too similar to everything
DIMENSIONS = 128
POWER_ITERATIONS = 2  # of the randomized factorization (Halko, Martinsson and Tropp 2011)


def token_vectors(sentences: Iterable[Sequence[int]], size: int, dimensions: int = DIMENSIONS) -> Tensor:
    """Vectors [size, dimensions] of float32; those of tokens without neighbours are zero.

    Args:
        sentences: tokens below `size`.
        size: of the vocabulary.
        dimensions: at most; a small vocabulary has fewer.
    """
    counts = co_occurrences(sentences, size)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        left, strengths, _ = torch.svd_lowrank(
            positive_information(counts), min(dimensions, size), niter=POWER_ITERATIONS
        )
    has_neighbours = torch.sparse.sum(counts, 1).to_dense() > 0
    return left * strengths.sqrt() * has_neighbours[:, None]  # without it rounding leaves them a direction


def co_occurrences(sentences: Iterable[Sequence[int]], size: int) -> Tensor:
    """A symmetric sparse matrix [size, size]: how often two tokens are near each other, weighted by nearness."""
    border = [-1] * WINDOW
    flat = torch.tensor([token for sentence in sentences for token in (*sentence, *border)], dtype=torch.int64)
    counts = _sparse(torch.empty(2, 0, dtype=torch.int64), torch.empty(0), size)
    for distance in range(1, min(WINDOW, len(flat) - 1) + 1):
        pairs = torch.stack([flat[:-distance], flat[distance:]])
        pairs = pairs[:, (pairs >= 0).all(0)]
        weights = torch.full((pairs.shape[1],), 1 / distance)
        counts = (counts + _sparse(pairs, weights, size)).coalesce()
    return (counts + counts.t()).coalesce()


def positive_information(counts: Tensor) -> Tensor:
    """By how many nats two tokens are near each other more often than by chance; 0 where that is negative."""
    rows, columns = counts.indices()
    totals = torch.sparse.sum(counts, 1).to_dense()
    smoothed = totals**SMOOTHING
    chance = totals[rows] * smoothed[columns] / smoothed.sum()
    return _sparse(counts.indices(), (counts.values() / chance).log().clamp(min=0.0), len(totals)).coalesce()


def _sparse(places: Tensor, values: Tensor, size: int) -> Tensor:
    return torch.sparse_coo_tensor(places, values, (size, size), check_invariants=False)  # said, or torch warns
