"""A member's gradients, summed by buffer, and the pieces that it sends of them."""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from averaging.reduce.gradient_codec import LARGEST_WEIGHT, Compression, encode_piece
from averaging.reduce.grid import Grid


@dataclass
class _Sum:
    """The gradients of all masked tokens in a buffer, added up."""

    gradient: Tensor
    weight: int  # masked tokens


class GradientBuffers:
    """The gradients that `averaging.protocol.buffers` numbers and weighs. Not for several threads at a time.

    A vector of float32 for each buffer, and the encoded pieces of the newest round, so that what is sent again is equal
    to the byte. Pieces of earlier rounds are dropped: a later one has other buffers, and no ballot goes back.
    """

    def __init__(self, grid: Grid, kind: Compression):
        self.grid, self.kind = grid, kind
        self._sums: dict[int, _Sum] = {}  # by number of the buffer
        self._first_open = 0  # buffers before this one take no more gradients
        self._planned: tuple[int, ...] = ()  # buffers that the pieces below are of
        self._pieces: dict[int, bytes] = {}  # by chunk

    def add(self, number: int, gradient: Tensor, weight: int) -> None:
        """Gather one batch in a buffer; adding to a later one closes all before it, and so does sending it.

        Args:
            gradient: the sum over masked tokens, of shape [elements], float32 on the processor. The first one of a
                buffer is kept and added to, not copied.
            weight: masked tokens of the batch.

        Raises:
            ValueError: the buffer is closed, the gradient is no finite vector of that size, or the weight is none.
        """
        if number < self._first_open:
            raise ValueError(f"buffer {number} is closed, gradients go into {self._first_open} or a later one")
        if gradient.shape != (self.grid.elements,) or gradient.dtype != torch.float32:
            raise ValueError(
                f"a gradient has {self.grid.elements} elements of float32, got {gradient.dtype} "
                f"of shape {tuple(gradient.shape)}"
            )
        if weight < 1 or self.weight([number]) + weight > LARGEST_WEIGHT:
            raise ValueError(f"a buffer weighs 1 to {LARGEST_WEIGHT} masked tokens, got {weight} more")
        if not all(math.isfinite(extreme) for extreme in torch.aminmax(gradient)):
            raise ValueError("a gradient is not finite")
        self._first_open = number
        if number in self._sums:
            self._sums[number].gradient.add_(gradient)
            self._sums[number].weight += weight
        else:
            self._sums[number] = _Sum(gradient, weight)

    def weight(self, numbers: Sequence[int]) -> int:
        """Masked tokens in these buffers; none in those that have been dropped."""
        return sum(self._sums[number].weight for number in numbers if number in self._sums)

    def piece(self, numbers: Sequence[int], chunk: int) -> bytes:
        """What a plan wants of this peer: the mean of these buffers in a chunk, and their weight.

        Raises:
            LookupError: one of the buffers has been dropped; nothing is to be sent.
            ValueError: there is no such chunk, or the sum over many batches is no number.
        """
        if tuple(numbers) != self._planned:
            self._planned, self._pieces = tuple(numbers), {}
        if chunk not in self._pieces:
            self._pieces[chunk] = self._encoded(chunk)
        return self._pieces[chunk]

    def _encoded(self, chunk: int) -> bytes:
        missing = [number for number in self._planned if number not in self._sums]
        if missing or not self._planned:
            raise LookupError(f"the plan names buffers {list(self._planned)}, and {missing or 'none'} are not there")
        self._first_open = max(self._first_open, max(self._planned) + 1)
        place = self.grid.slice(chunk)
        total, *others = (self._sums[number].gradient.numpy()[place] for number in self._planned)
        for other in others:
            total = total + other  # not in place: buffers stay apart
        weight = self.weight(self._planned)
        return encode_piece(total / np.float32(weight), weight, self.kind)

    def drop(self, numbers: Collection[int]) -> None:
        """Forget buffers that a committed header has taken, and their pieces."""
        for number in numbers:
            self._sums.pop(number, None)
        if set(numbers) & set(self._planned):
            self._planned, self._pieces = (), {}

    def keep(self, numbers: Collection[int]) -> None:
        """Forget all other buffers."""
        self.drop(set(self._sums).difference(numbers))
