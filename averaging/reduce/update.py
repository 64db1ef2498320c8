"""The update of a header: what all peers decode from the same bytes."""

from collections.abc import Sequence

import torch
from torch import Tensor

from averaging.reduce.encoding import Compression, decode
from averaging.reduce.grid import Grid


def decode_update(chunks: Sequence[bytes | memoryview], grid: Grid, kind: Compression) -> Tensor:
    """The mean gradient of a global step, of shape [elements], float32 on the processor.

    Args:
        chunks: all of them, in the order of the grid.

    Raises:
        ValueError: there are more or fewer chunks, or one of them is none.
    """
    if len(chunks) != grid.count:
        raise ValueError(f"an update has {grid.count} chunks, got {len(chunks)}")
    gradient = torch.empty(grid.elements)
    values = gradient.numpy()
    for chunk, encoded in enumerate(chunks):
        decode(encoded, grid.size(chunk), kind, out=values[grid.slice(chunk)])
    return gradient
