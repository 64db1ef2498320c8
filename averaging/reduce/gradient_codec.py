"""How float32 travels: in 8 bits by blocks, as float16, or as it is.

A tag of four bytes names the kind. In 8 bits follow the scales of all blocks, as bfloat16, and then the elements, each
an integer times the scale of its block: one multiplication that IEEE 754 defines to the bit, so every machine decodes
the same. A scale for each block costs 1.6 % more bytes than hivemind's one code book for a tensor; but gradients of
embeddings have long tails, which the code book cuts off, and biases and layer norms need no other treatment than large
tensors. A block is one row of ALBERT's embeddings, so that rare words do not vanish beside frequent ones. hivemind's
messages do not fit here: they say themselves how large the result is and of which type.

A *piece* is what one member sends of one chunk: the weight behind its mean gradient there, and that mean.

Nothing here uses torch: its pool of threads belongs to training, and one core encodes some gigabytes a second.
"""

import struct
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from averaging.reduce.grid import Grid

Compression: TypeAlias = Literal["8bit", "float16", "none"]
Floats: TypeAlias = NDArray[np.float32]

BLOCK = 128  # elements with a scale of their own
LARGEST = np.float32(65504.0)  # in float16: no element of a gradient is larger, and its square is far from overflowing
LARGEST_WEIGHT = 2**29 - 1  # masked tokens: its product with a float32 is exact in float64
_WEIGHT = struct.Struct("<I")
_TAGS: dict[Compression, bytes] = {"8bit": b"int8", "float16": b"fp16", "none": b"fp32"}
_TAG_BYTES = 4
_STEPS = np.float32(127)
_LARGEST_SCALE = np.float32(516)  # a step of bfloat16 above LARGEST / 127
_SMALLEST_SCALE = np.float32(2.0**-100)  # below are zeros: products stay far from numbers that some processors flush


def encoded_bytes(elements: int, kind: Compression) -> int:
    """Length of an encoded vector."""
    each = {"8bit": 1, "float16": 2, "none": 4}[kind]
    return _TAG_BYTES + each * elements + (2 * _blocks(elements) if kind == "8bit" else 0)


def vector_bytes(grid: Grid, kind: Compression) -> int:
    """Length of a whole vector, chunk by chunk; the names of the messages are less than a thousandth of it."""
    return sum(encoded_bytes(grid.size(chunk), kind) for chunk in range(grid.count))


def encode(values: Floats, kind: Compression) -> bytes:
    """The bytes of a vector; equal vectors have equal bytes. Elements beyond `LARGEST` are sent as `LARGEST`.

    Args:
        values: of shape [elements].

    Raises:
        ValueError: an element is not a number.
    """
    largest = np.abs(values).max(initial=np.float32(0))
    if np.isnan(largest):
        raise ValueError("a gradient has an element that is not a number")
    if largest > LARGEST:
        values = np.clip(values, -LARGEST, LARGEST)
    if kind == "8bit":
        scales, integers = _quantized(values)
        return b"".join((_TAGS[kind], scales.data, integers.data))
    return _TAGS[kind] + values.astype("<f2" if kind == "float16" else "<f4").tobytes()


def decode(encoded: bytes | memoryview, elements: int, kind: Compression, out: Floats | None = None) -> Floats:
    """The vector with these bytes.

    Args:
        elements: as many as are expected; nothing that the sender says sets the size of anything.
        out: where to put them, of shape [elements]; after an error it may hold anything.

    Raises:
        ValueError: the bytes are not such a vector, or an element is not finite or beyond `LARGEST`.
    """
    payload = _payload(encoded, elements, kind)
    values = np.empty(elements, np.float32) if out is None else out
    if kind == "8bit":
        scales = _scales(payload, elements)
        values[:] = np.frombuffer(payload, np.int8, offset=2 * len(scales))
        _scale(values, scales)
        return values
    values[:] = np.frombuffer(payload, "<f2" if kind == "float16" else "<f4")
    if not np.abs(values).max(initial=np.float32(0)) <= LARGEST:  # also false for what is not a number
        raise ValueError(f"an element is not finite or beyond {LARGEST:.0f}")
    return values


def _payload(encoded: bytes | memoryview, elements: int, kind: Compression) -> memoryview:
    view = memoryview(encoded)
    if view.nbytes != encoded_bytes(elements, kind):
        raise ValueError(f"{elements} elements take {encoded_bytes(elements, kind)} bytes, got {view.nbytes}")
    tag = bytes(view[:_TAG_BYTES])
    if tag != _TAGS[kind]:
        raise ValueError(f"the encoding must be {_TAGS[kind]!r}, got {tag!r}")
    return view[_TAG_BYTES:]


def _blocks(elements: int) -> int:
    return -(-elements // BLOCK)


def _quantized(values: Floats) -> tuple[NDArray[np.uint16], NDArray[np.int8]]:
    """Scales as bfloat16, of shape [blocks], and integers of shape [elements]."""
    missing = -len(values) % BLOCK
    blocks = (np.pad(values, (0, missing)) if missing else values).reshape(-1, BLOCK)
    exact = np.abs(blocks).max(axis=1) / _STEPS
    exact[exact < _SMALLEST_SCALE] = 0
    halves = ((exact.view(np.uint32) + 0xFFFF) >> 16).astype("<u2")  # rounded up: no integer is beyond 127
    scales = _widened(halves)
    inverse = np.divide(np.float32(1), scales, out=np.zeros_like(scales), where=scales > 0)
    integers = np.rint(blocks * inverse[:, None]).astype(np.int8)
    return halves, integers.reshape(-1)[: len(values)]


def _widened(halves: NDArray[np.uint16]) -> Floats:
    """bfloat16 is the upper half of a float32."""
    return (halves.astype(np.uint32) << 16).view(np.float32)


def _scales(payload: memoryview, elements: int) -> Floats:
    scales = _widened(np.frombuffer(payload, "<u2", count=_blocks(elements)))
    is_usable = ((scales >= _SMALLEST_SCALE) & (scales <= _LARGEST_SCALE)) | (scales == 0)
    if not is_usable.all():
        raise ValueError(f"the scale of a block is {scales[~is_usable][0]}")
    return scales


def _scale(values: Floats, scales: Floats) -> None:
    """Multiply each block by its scale, in place."""
    whole = len(values) // BLOCK
    blocks = values[: whole * BLOCK].reshape(whole, BLOCK)
    blocks *= scales[:whole, None]
    if whole < len(scales):  # the vector's end cuts off a block
        values[whole * BLOCK :] *= scales[whole]


# -- pieces


def piece_bytes(elements: int, kind: Compression) -> int:
    """Length of a piece: no longer message need be read."""
    return _WEIGHT.size + encoded_bytes(elements, kind)


def encode_piece(mean: Floats, weight: int, kind: Compression) -> bytes:
    """The bytes of a piece.

    Args:
        mean: of shape [elements of the chunk], over masked tokens: a sum over many would not fit into float16.
        weight: masked tokens.

    Raises:
        ValueError: an element is not a number, or the weight is none.
    """
    if not 0 < weight <= LARGEST_WEIGHT:
        raise ValueError(f"a piece weighs 1 to {LARGEST_WEIGHT} masked tokens, got {weight}")
    return with_weight(encode(mean, kind), weight)


def with_weight(encoded: bytes, weight: int) -> bytes:
    """The piece of a chunk that is encoded already."""
    return _WEIGHT.pack(weight) + encoded


def decode_piece(
    piece: bytes | memoryview, weight: int | None, elements: int, kind: Compression, out: Floats | None = None
) -> Floats:
    """The mean gradient in a piece.

    Args:
        weight: masked tokens that its sender has called with; None: it is in no plan.
        elements: of the chunk.
        out: as in `decode`.

    Raises:
        ValueError: the piece is not what its sender was to send.
    """
    view = memoryview(piece)
    if view.nbytes != piece_bytes(elements, kind):
        raise ValueError(f"a piece of {elements} elements takes {piece_bytes(elements, kind)} bytes, got {view.nbytes}")
    (own,) = _WEIGHT.unpack_from(view)
    if own != weight or not own:
        raise ValueError(f"the piece weighs {own} masked tokens, the plan says {weight or 0}")
    return decode(view[_WEIGHT.size :], elements, kind, out)
