"""How many bytes a vector takes on the wire; what compresses it is in `compression.py`."""

from collections.abc import Sequence
from typing import Literal

Compression = Literal["8bit", "float16", "none"]

# Below this many elements 8-bit saves next to nothing and its error weighs most: biases and layer
# norms stay in float16. The number is the one the sahajBERT run used.
LARGE_TENSOR = 2**16 + 1


def gradient_bytes(sizes: Sequence[int], kind: Compression) -> int:
    """Bytes of a vector of gradients; headers and code books, some thousandths of it, are left out.

    Args:
        sizes: elements of each tensor.
    """
    if kind == "8bit":
        return sum(size if size >= LARGE_TENSOR else 2 * size for size in sizes)
    return state_bytes(sizes, kind)


def state_bytes(sizes: Sequence[int], kind: Compression) -> int:
    """Bytes of a vector of parameters, which is never sent in 8 bits."""
    return sum(sizes) * (4 if kind == "none" else 2)
