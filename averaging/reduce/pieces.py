"""A piece: what one member sends of one chunk, its mean gradient there and the weight behind it."""

import struct

from averaging.reduce.encoding import Compression, Floats, decode, encode, encoded_bytes

LARGEST_WEIGHT = 2**29 - 1  # masked tokens: its product with a float32 is exact in float64
_WEIGHT = struct.Struct("<I")


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
