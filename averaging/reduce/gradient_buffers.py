"""A member's gradients, summed by buffer, and the pieces that it sends of them."""

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

    A vector of float32 for each buffer. Sending one closes it, so a piece that is sent again is equal to the byte.
    """

    def __init__(self, grid: Grid, kind: Compression):
        self.grid, self.kind = grid, kind
        self._sums: dict[int, _Sum] = {}  # by number of the buffer
        self._first_open = 0  # buffers before this one take no more gradients

    def add(self, number: int, gradient: Tensor, weight: int) -> None:
        """Gather one batch in a buffer; adding to a later one closes all before it, and so does sending it.

        Args:
            gradient: the sum over masked tokens, of shape [elements], float32 on the processor, finite.
            weight: masked tokens of the batch.

        Raises:
            ValueError: the buffer is closed, the gradient is no vector of that size, or the weight is none.
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
        self._first_open = number
        if number in self._sums:
            self._sums[number].gradient.add_(gradient)
            self._sums[number].weight += weight
        else:
            self._sums[number] = _Sum(gradient.clone(), weight)

    def weight(self, numbers: Sequence[int]) -> int:
        """Masked tokens in these buffers; none in those that have been dropped."""
        return sum(self._sums[number].weight for number in numbers if number in self._sums)

    def piece(self, numbers: Sequence[int], chunk: int) -> bytes:
        """What a plan wants of this peer: the mean of these buffers in a chunk, and their weight.

        Raises:
            LookupError: one of the buffers has been dropped; nothing is to be sent.
            ValueError: there is no such chunk, or the sum over many batches is no number.
        """
        missing = [number for number in numbers if number not in self._sums]
        if missing or not numbers:
            raise LookupError(f"the plan names buffers {list(numbers)}, and {missing or 'none'} are not there")
        self._first_open = max(self._first_open, max(numbers) + 1)
        place = self.grid.slice(chunk)
        total, *others = (self._sums[number].gradient.numpy()[place] for number in numbers)
        for other in others:
            total = total + other  # not in place: buffers stay apart
        weight = self.weight(numbers)
        return encode_piece(total / np.float32(weight), weight, self.kind)

    def keep(self, numbers: Collection[int]) -> None:
        """Drop all other buffers: a committed header has taken them."""
        self._sums = {number: one for number, one in self._sums.items() if number in numbers}
