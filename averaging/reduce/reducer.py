"""The mean of one chunk over its senders, encoded once for all peers.

A reducer keeps pieces encoded until a chunk is complete (some 1 byte an element and sender in 8 bits), because a late
sender may still be left out; then it decodes them one after the other into the same memory, some 24 bytes an element
whatever the number of senders.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from averaging.reduce.gradient_codec import Compression, Floats, decode_piece, encode
from averaging.reduce.grid import Grid


@dataclass(frozen=True)
class EncodedMean:
    """The mean of a chunk, as all members get it, the reducer included."""

    encoded: bytes
    excluded: tuple[str, ...]  # sessions whose pieces could not be used, in plan order


def average(
    grid: Grid,
    kind: Compression,
    pieces: Sequence[tuple[str, bytes | memoryview]],
    chunk: int,
    weights: Mapping[str, int],
) -> EncodedMean:
    """The mean of a chunk over all pieces that can be used; the others are named.

    The same pieces in the same order give the same bytes on every machine.

    Args:
        kind: of the pieces and of the mean.
        pieces: sessions and what they sent, in plan order.
        weights: masked tokens that each session has called with.

    Raises:
        ValueError: there is no such chunk, or no piece of it can be used.
    """
    elements = grid.size(chunk)
    gradient = np.empty(elements, np.float32)
    excluded: list[str] = []

    def usable() -> Iterable[tuple[Floats, int]]:
        for session, piece in pieces:
            weight = weights.get(session)
            try:
                decode_piece(piece, weight, elements, kind, out=gradient)
            except ValueError:
                excluded.append(session)
            else:
                assert weight is not None
                yield gradient, weight

    mean = weighted_mean(usable(), elements)
    return EncodedMean(encode(mean, kind), tuple(excluded))


def weighted_mean(gradients: Iterable[tuple[Floats, int]], elements: int) -> Floats:
    """The mean of gradients that weigh so many masked tokens. Bounds on a sender's influence belong here.

    In float64, and added up in the order given: a float32 times a weight below 2**29 is exact there, so it makes no
    difference whether a processor rounds between multiplication and addition, and anyone can compute the sum again.

    Args:
        gradients: each of shape [elements], read before the next one is asked for.

    Raises:
        ValueError: there are none.
    """
    total: NDArray[np.float64] = np.zeros(elements)
    whole = 0
    for gradient, weight in gradients:
        total += gradient * np.float64(weight)
        whole += weight
    if not whole:
        raise ValueError("no piece of the chunk can be used")
    total /= whole
    return total.astype(np.float32)
