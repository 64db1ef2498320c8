"""The mean of one chunk over its senders, encoded once for all peers.

A reducer keeps pieces encoded until a chunk is complete (some 1 byte an element and sender in 8 bits), because a late
sender may still be left out; then it decodes them one after the other into the same memory, some 40 bytes an element
whatever the number of senders.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from averaging.log.shares import LOUDEST, counted
from averaging.reduce.clipping import Robust, bounded, loudness, squared_norm
from averaging.reduce.gradient_codec import Compression, Floats, decode_piece, encode
from averaging.reduce.grid import Grid


@dataclass(frozen=True)
class EncodedMean:
    """The mean of a chunk, as all members get it, the reducer included."""

    encoded: bytes
    excluded: tuple[str, ...]  # sessions whose pieces could not be used, in plan order
    loud: tuple[tuple[str, float], ...] = ()  # those of the others that are above `LOUDEST`, with their loudness


def average(
    grid: Grid,
    kind: Compression,
    pieces: Sequence[tuple[str, bytes | memoryview]],
    chunk: int,
    weights: Mapping[str, int],
    robust: Robust = "off",
    users: Mapping[str, str] | None = None,
    on_probation: Collection[str] = (),
) -> EncodedMean:
    """The mean of a chunk over all pieces that can be used; the others are named.

    The same pieces in the same order give the same bytes on every machine.

    Args:
        kind: of the pieces and of the mean.
        pieces: sessions and what they sent, in plan order.
        weights: masked tokens that each session has called with.
        robust: whether to look for loud senders, and to scale them down.
        users: of the sessions, whose shares are bounded too where loud senders are scaled down; None: they are not.
        on_probation: users whose weight counts as 0.

    Raises:
        ValueError: there is no such chunk, or no piece of it can be used.
    """
    elements = grid.size(chunk)
    gradient = np.empty(elements, np.float32)
    usable: dict[str, bytes | memoryview] = {}
    squares: list[float] = []

    def first_read() -> Iterable[tuple[Floats, int]]:
        for session, piece in pieces:
            try:
                decode_piece(piece, weights.get(session), elements, kind, out=gradient)
            except ValueError:
                continue
            usable[session] = piece
            if robust != "off":
                squares.append(squared_norm(gradient))
            yield gradient, weights[session]

    def bounded_ones(shares: Iterable[int], times: Iterable[float]) -> Iterable[tuple[Floats, int]]:
        for (session, piece), share, loud in zip(usable.items(), shares, times, strict=True):
            decode_piece(piece, weights[session], elements, kind, out=gradient)
            yield gradient, bounded(share, loud)

    mean = weighted_mean(first_read(), elements)
    excluded = tuple(session for session, _ in pieces if session not in usable)
    if robust == "off":
        return EncodedMean(encode(mean, kind), excluded)
    brought = [weights[session] for session in usable]
    whose = [session if users is None else users[session] for session in usable]
    times = loudness(squares, brought, whose)
    loud = tuple((session, one) for session, one in zip(usable, times, strict=True) if one > LOUDEST)
    if robust == "enforce":
        shares = counted(whose, brought, on_probation) if users is not None else brought
        if loud or shares != brought:
            mean = weighted_mean(bounded_ones(shares, times), elements, sum(shares))
    return EncodedMean(encode(mean, kind), excluded, loud)


def weighted_mean(gradients: Iterable[tuple[Floats, int]], elements: int, whole: int | None = None) -> Floats:
    """The mean of gradients that weigh so many masked tokens.

    In float64, and added up in the order given: a float32 times a weight below 2**29 is exact there, so it makes no
    difference whether a processor rounds between multiplication and addition, and anyone can compute the sum again.

    Args:
        gradients: each of shape [elements], read before the next one is asked for.
        whole: what the sum is divided by, if not by the sum of the weights.

    Raises:
        ValueError: there are none.
    """
    total: NDArray[np.float64] = np.zeros(elements)
    summed = 0
    for gradient, weight in gradients:
        total += gradient * np.float64(weight)
        summed += weight
    if not (whole := summed if whole is None else whole):
        raise ValueError("no piece of the chunk can be used")
    total /= whole
    return total.astype(np.float32)
