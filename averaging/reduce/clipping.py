"""Senders whose gradients are louder than their weight explains.

A mean over w masked tokens is the slope of the loss, a, with noise of norm s / sqrt(w), and where many peers share a
batch the noise is most of it. So `||g|| sqrt(w)` is about the same for all honest senders, and no claim makes a liar's
small: its *loudness* is that of its gradient, relative to the weighted median over the senders. What is above `LOUDEST`
can be scaled down to it, which is one step of CenteredClip from zero (Karimireddy et al. 2021, "Learning from History
for Byzantine Robust Optimization").

All numbers here are equal to the bit on every processor, so that anybody can sum a mean again.
"""

import statistics
from collections.abc import Sequence
from math import sqrt
from typing import Literal, TypeAlias

import numpy as np

from averaging.reduce.gradient_codec import Floats

Robust: TypeAlias = Literal["off", "watch", "enforce"]  # nothing; loud senders are named; and scaled down

LOUDEST = 2.0  # that is believed: honest gradients differ by their text, and by how much of them is slope
HEAVIEST = 3  # usual weights: less than half of all, where there are `FEWEST`
FEWEST = 5  # senders, without whom nobody can tell which one is odd


def squared_norm(gradient: Floats) -> float:
    """The sum of squares, added up in halves: each square is exact in float64, and the order is no library's choice."""
    squares = np.square(gradient, dtype=np.float64)
    while len(squares) > 1:
        half = len(squares) // 2
        odd = squares[2 * half :]
        squares = squares[:half] + squares[half : 2 * half]
        if len(odd):
            squares[0] += odd[0]
    return float(squares.sum())


def loudness(squared_norms: Sequence[float], weights: Sequence[int]) -> list[float]:
    """How loud each sender's gradient is, 1 is usual; all are where there are fewer than `FEWEST` that say something.

    Args:
        squared_norms: of the mean gradients.
        weights: masked tokens behind each.
    """
    noises = [sqrt(square * weight) for square, weight in zip(squared_norms, weights, strict=True)]
    speaking = sorted((noise, weight) for noise, weight in zip(noises, weights, strict=True) if noise > 0.0)
    if len(speaking) < FEWEST:
        return [1.0] * len(noises)
    usual = _weighted_median(speaking)
    return [noise / usual for noise in noises]


def bounded(weight: int, loud: float) -> int:
    """What a sender counts with when it is scaled down to `LOUDEST`: a whole number, so that sums stay exact."""
    return weight if loud <= LOUDEST else int(weight * (LOUDEST / loud))


def _weighted_median(values: Sequence[tuple[float, int]]) -> float:
    """Of values in order, each with its weight, which counts up to `HEAVIEST` usual ones: no claim makes the median."""
    most = HEAVIEST * statistics.median_low([weight for _, weight in values])
    weights = [min(weight, most) for _, weight in values]
    below, whole = 0, sum(weights)
    for (value, _), weight in zip(values, weights, strict=True):
        below += weight
        if 2 * below >= whole:
            return value
    raise AssertionError("half of the weight is reached")
