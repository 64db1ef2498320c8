"""Rows of activations or gradients as bytes: eight bits an element, and one scale for each row.

A row travels as its largest magnitude over 127, a float32, and as that many whole multiples of it: `width + 4` bytes, a
quarter of float32. The error of an element is at most half of the scale, 0.4 % of the row's largest element. Layout:
all scales, then all rows, little-endian.
"""

import itertools
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

SCALE_BYTES = 4
STEPS = 127  # from zero to the largest magnitude
LOWEST = np.float32(-128)  # the number of eight bits with the largest magnitude


def encoded_bytes(rows: int, width: int) -> int:
    """The length of so many encoded rows."""
    return rows * (width + SCALE_BYTES)


def encode(rows: Tensor) -> bytes:
    """Encode (rows, width) numbers of any floating type.

    A row that is not finite is encoded, too; `decode` refuses it.
    """
    (encoded,) = encode_each(rows, [len(rows)])
    return encoded


def encode_each(rows: Tensor, counts: Sequence[int]) -> list[bytes]:
    """Split rows into groups of these sizes and encode each; faster than a call for each group."""
    rows = rows.detach().to("cpu", torch.float32)
    if not rows.numel():
        return [bytes(encoded_bytes(count, rows.shape[1])) for count in counts]
    scales = rows.abs().amax(dim=1) / STEPS
    # the smallest numbers have no inverse; elements of a row that is not finite are arbitrary, and its scale tells
    inverse = scales.clamp_min(torch.finfo(torch.float32).tiny).reciprocal_().unsqueeze(1)
    elements = (rows * inverse).round_().to(torch.int8)
    ends = list(itertools.accumulate(counts))
    runs = [slice(end - count, end) for count, end in zip(counts, ends, strict=True)]
    all_scales, all_elements = scales.numpy().astype("<f4"), elements.numpy()
    return [all_scales[run].tobytes() + all_elements[run].tobytes() for run in runs]


def is_finite(encoded: bytes, rows: int) -> bool:
    """Whether so many rows were finite when they were encoded."""
    return bool(np.isfinite(np.frombuffer(encoded, "<f4", rows)).all())


def decode(data: bytes | memoryview, rows: int, width: int, into: Tensor | None = None) -> Tensor:
    """Decode what `encode` made of so many rows.

    Args:
        into: where to write them, float32 and (rows, width); by default a new tensor.

    Returns:
        float32, (rows, width), finite.

    Raises:
        ValueError: the bytes are no such rows, or a row is not finite.
    """
    if rows < 0 or width < 0 or len(data) != encoded_bytes(rows, width):
        raise ValueError(f"{len(data)} bytes are not {rows} encoded rows of {width} elements")
    scales = np.frombuffer(data, "<f4", rows)[:, None]
    elements = np.frombuffer(data, np.int8, rows * width, offset=rows * SCALE_BYTES).reshape(rows, width)
    with np.errstate(over="ignore", invalid="ignore"):
        if not np.isfinite(scales * LOWEST).all():
            raise ValueError("a row is not finite")
    into = torch.empty(rows, width) if into is None else into
    np.multiply(elements, scales.astype(np.float32), out=into.numpy())
    return into
