"""Rows of activations or gradients as bytes: eight bits an element, and one scale for each row.

A row travels as its largest magnitude over 127, a float32, and as that many whole multiples of it: `width + 4` bytes, a
quarter of float32. The error of an element is at most half of the scale, 0.4 % of the row's largest element. Layout:
all scales, then all rows, little-endian.
"""

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
    rows = rows.detach().to("cpu", torch.float32)
    if not rows.numel():
        return bytes(encoded_bytes(*rows.shape))
    scales = rows.abs().amax(dim=1) / STEPS
    # the smallest numbers have no inverse; elements of a row that is not finite are arbitrary, and its scale tells
    elements = (rows / scales.clamp_min(torch.finfo(torch.float32).tiny).unsqueeze(1)).round_().to(torch.int8)
    return scales.numpy().astype("<f4").tobytes() + elements.numpy().tobytes()


def decode(data: bytes | memoryview, rows: int, width: int) -> Tensor:
    """Decode what `encode` made of so many rows.

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
    return torch.from_numpy(elements * scales.astype(np.float32))
