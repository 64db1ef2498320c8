"""Values that travel, and lie on disks, as lists of their fields in MessagePack."""

import functools
from typing import Any

import msgspec


class Packed(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Equal values have equal bytes. Types are checked when a value is read, and at no other time."""


def pack(value: Any) -> bytes:
    """The bytes of a value."""
    return msgspec.msgpack.encode(value)


def unpack(kind: Any, packed: bytes) -> Any:
    """The value of a kind with these bytes.

    Raises:
        ValueError: there is none, in one line.
    """
    try:
        return _decoder(kind).decode(packed)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:  # the last one: it is nested too deeply
        raise ValueError(f"not of this form: {str(error)!r:.120}") from None


@functools.cache
def _decoder(kind: Any) -> Any:
    return msgspec.msgpack.Decoder(kind)
