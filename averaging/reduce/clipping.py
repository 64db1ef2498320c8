"""Senders whose gradients are louder than their weight explains.

A mean over w masked tokens is the slope of the loss with noise of norm s / sqrt(w). Where many peers share a batch, the
noise is most of it, and `||g|| sqrt(w)` is about the same for all honest senders; where it is the slope, `||g||` is.
What a sender's weight explains is the larger one of the two weighted medians over the senders, the first divided by
its sqrt(w): one that computes much is not to be quieter than the others. Its *loudness* is the norm of its gradient,
relative to that. A gradient above `LOUDEST` can be scaled down: to that, as a step of CenteredClip from zero would do
(Karimireddy et al. 2021, "Learning from History for Byzantine Robust Optimization"), and further the louder it is: then
it is no noise. One that is multiplied by 100 has next to no influence.

All numbers here are equal to the bit on every processor, so that anybody can sum a mean again.
"""

from collections.abc import Sequence
from math import sqrt
from typing import Literal, TypeAlias

import numpy as np

from averaging.log.shares import counted, heard
from averaging.reduce.gradient_codec import Floats

Robust: TypeAlias = Literal["off", "watch", "enforce"]  # nothing; loud senders are named; and scaled down

MOST = 1e6  # that is told: such a sender counts with nothing at all
FEWEST = 5  # users, without whom nobody can tell which one is odd


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


def loudness(squared_norms: Sequence[float], weights: Sequence[int], users: Sequence[str]) -> list[float]:
    """How loud each sender's gradient is, 1 is usual; all are where fewer than `FEWEST` users say something.

    A user has as much to say of what is usual as it may have of a mean: no claim makes the median, nor do two devices.

    Args:
        squared_norms: of the mean gradients.
        weights: masked tokens behind each.
        users: whose they are.
    """
    norms = [sqrt(square) for square in squared_norms]
    speaking = [one for one in zip(norms, weights, users, strict=True) if one[0] > 0.0]
    if len({user for _, _, user in speaking}) < FEWEST:
        return [1.0] * len(norms)
    votes = counted([user for _, _, user in speaking], [weight for _, weight, _ in speaking])
    usual = _weighted_median([(norm, vote) for (norm, _, _), vote in zip(speaking, votes, strict=True)])
    noises = [norm * sqrt(weight) for norm, weight, _ in speaking]
    noise = _weighted_median(list(zip(noises, votes, strict=True)))
    times = [norm / max(usual, noise / sqrt(weight)) for norm, weight in zip(norms, weights, strict=True)]
    return [min(one, MOST) for one in times]


def bounded(weight: int, loud: float) -> int:
    """What a loud sender counts with: the louder it is, the less it says. A whole number, so that sums stay exact."""
    return int(weight * heard(loud))


def _weighted_median(values: Sequence[tuple[float, int]]) -> float:
    """Of values, each with its weight."""
    below, half = 0, sum(weight for _, weight in values) / 2
    for value, weight in sorted(values):
        below += weight
        if below >= half:
            return value
    raise AssertionError("half of the weight is reached")
