"""Messages of the protocol as bytes, and back: strict, because whatever arrives may have been made to do harm.

A message is MessagePack: its name and the values of its fields in order, dataclasses within it as lists. A header
travels as the bytes that its digest is of. What is expected is read from the type hints of the dataclasses; names of
fields say which strings are digests and which are sessions.
"""

import dataclasses
import functools
import hashlib
import math
import re
import struct
import types
from enum import Enum
from typing import Any, Union, get_args, get_origin, get_type_hints

import msgpack

from averaging.log.header import Farewell, Header
from averaging.protocol.messages import Chunk, Goodbye, Headers, Log, Message, Piece

LONGEST_TEXT = 128  # characters of a string
LONGEST_BYTES = 1200  # of a signature with its key, and a pass
LARGEST_NUMBER = 2**63 - 1
MOST_ITEMS = 4096  # in a list, if it is not one of those below
MOST = {
    **dict.fromkeys(("chunks", "digests", "exclusions", "missing"), 2**16),
    **dict.fromkeys(("voters", "votes", "goodbyes", "signatures", "contacts"), 64),
}
DIGESTS = frozenset({"digest", "digests", "instance", "previous", "chunks"})
SESSIONS = frozenset(
    {
        *("session", "convener", "reducer", "voters", "votes", "goodbyes"),
        *("tie_breaker", "members", "clients", "missing", "resting"),
    }
)
MAY_BE_EMPTY = frozenset({"instance", "previous", "tie_breaker"})
LEAST: dict[tuple[type, str], int] = {(Goodbye, "step"): -1, (Farewell, "step"): -1}  # of a peer without a state
WITH_PAYLOAD = (Chunk, Piece)
BULKY = (Chunk, Piece, Log, Headers)  # what must not hold up anything else
_DIGEST = re.compile(r"[0-9a-f]{64}")
_SESSION = re.compile(r"[1-9A-HJ-NP-Za-km-z]{40,64}\.[0-9a-f]{8}")  # peer id in base58, and a random number
_MESSAGES: dict[str, type] = {one.__name__: one for one in get_args(Message)}
_LENGTH = struct.Struct(">I")


def pack(encoded: bytes, payload: bytes | None = None) -> bytes:
    """An encoded message and the bytes that belong to it, which are those of a chunk or of a piece."""
    return b"".join((_LENGTH.pack(len(encoded)), encoded, payload or b""))


def unpack(packed: bytes) -> tuple[Message, bytes | None]:
    """The message and its payload. Whether a payload has the digest that it is sent under, `fits` tells.

    Raises:
        ValueError: this is no message, in one line.
    """
    if len(packed) < _LENGTH.size:
        raise ValueError(f"a message of {len(packed)} bytes")
    (length,) = _LENGTH.unpack_from(packed)
    end = _LENGTH.size + length
    message = decode(packed[_LENGTH.size : end])
    if end > len(packed) or isinstance(message, WITH_PAYLOAD) != (len(packed) > end):
        raise ValueError(f"{type(message).__name__}: {len(packed) - end} bytes of payload")
    return message, packed[end:] if len(packed) > end else None


def fits(message: Message, payload: bytes | None) -> bool:
    """Whether a chunk has the digest that it is sent under; true of all other messages."""
    return not isinstance(message, Chunk) or hashlib.sha256(payload or b"").hexdigest() == message.digest


def is_session_of(session: str, peer_id: str) -> bool:
    """Whether a session is one of this peer; its id in base58."""
    return _SESSION.fullmatch(session) is not None and session.partition(".")[0] == peer_id


def encode(message: Message) -> bytes:
    """The bytes of a message without its payload."""
    return bytes(msgpack.packb([type(message).__name__, *_plain(message)]))


def decode(encoded: bytes) -> Message:
    """The message with these bytes.

    Raises:
        ValueError: there is none, in one line.
    """
    name, *values = _unpacked(encoded)
    kind = _MESSAGES.get(name) if isinstance(name, str) else None
    if kind is None:
        raise ValueError(f"no message is called {name!r:.40}")
    message: Message = _read_fields(kind, values)
    return message


def _plain(value: Any) -> Any:
    if isinstance(value, Header):
        return value.encoded
    if dataclasses.is_dataclass(value):
        return [_plain(getattr(value, field.name)) for field in dataclasses.fields(value)]
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return value.value if isinstance(value, Enum) else value


def _unpacked(encoded: bytes) -> list[Any]:
    try:
        plain = msgpack.unpackb(encoded, max_map_len=0, max_ext_len=0)
    except (ValueError, msgpack.exceptions.UnpackException) as error:
        raise ValueError(f"no MessagePack: {error!r:.80}") from None
    if not isinstance(plain, list) or not plain:
        raise ValueError("no list of values")
    return plain


def _read(hint: Any, plain: Any, name: str, least: int = 0) -> Any:
    """The value of a field, or of an item in it."""
    origin = get_origin(hint)
    if origin in (Union, types.UnionType):
        (inner,) = (one for one in get_args(hint) if one is not types.NoneType)
        return None if plain is None else _read(inner, plain, name, least)
    if origin is tuple:
        return _read_items(get_args(hint), plain, name)
    if hint is Header:
        return _read_header(plain)
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        return _read_fields(hint, plain)
    if hint is str:
        return _read_text(plain, name)
    if hint is bytes and type(plain) is bytes and len(plain) <= LONGEST_BYTES:
        return plain
    if hint is bool and type(plain) is bool:
        return plain
    if isinstance(hint, type) and issubclass(hint, Enum) and type(plain) is str:
        return hint(plain)
    if hint in (int, float) and _is_number(hint, plain, least):
        return plain
    raise ValueError(f"{name}: {plain!r:.40} is not a {getattr(hint, '__name__', hint)}")


def _read_fields(kind: type, plain: Any) -> Any:
    fields = _fields(kind)
    if not isinstance(plain, list) or len(plain) != len(fields):
        raise ValueError(f"{kind.__name__}: not its {len(fields)} values")
    values = zip(fields, plain, strict=True)
    return kind(*[_read(hint, value, name, LEAST.get((kind, name), 0)) for (name, hint), value in values])


@functools.cache
def _fields(kind: type) -> list[tuple[str, Any]]:
    hints = get_type_hints(kind)
    return [(field.name, hints[field.name]) for field in dataclasses.fields(kind)]


def _read_items(hints: tuple[Any, ...], plain: Any, name: str) -> tuple[Any, ...]:
    if not isinstance(plain, list) or len(plain) > MOST.get(name, MOST_ITEMS):
        raise ValueError(f"{name}: no list, or one of too many items")
    if len(hints) == 2 and hints[1] is Ellipsis:
        return tuple(_read(hints[0], item, name) for item in plain)
    if len(plain) != len(hints):
        raise ValueError(f"{name}: {len(plain)} items instead of {len(hints)}")
    return tuple(_read(hint, item, name) for hint, item in zip(hints, plain, strict=True))


def _read_header(plain: Any) -> Header:
    if type(plain) is not bytes:
        raise ValueError("a header that is not bytes")
    header: Header = _read_fields(Header, _unpacked(plain)[1:])
    if header.encoded != plain:
        raise ValueError("a header of another format, or not in the one encoding that it has")
    return header


def _read_text(plain: Any, name: str) -> str:
    if type(plain) is not str or len(plain) > LONGEST_TEXT or not plain.isprintable():
        raise ValueError(f"{name}: no printable text of at most {LONGEST_TEXT} characters")
    expected = _DIGEST if name in DIGESTS else _SESSION if name in SESSIONS else None
    is_empty = not plain and name in MAY_BE_EMPTY
    if expected is not None and not is_empty and not expected.fullmatch(plain):
        raise ValueError(f"{name}: {plain!r:.40} is no {'digest' if expected is _DIGEST else 'session'}")
    return plain


def _is_number(hint: type, plain: Any, least: int) -> bool:
    if type(plain) is float:
        return hint is float and math.isfinite(plain) and plain >= least
    return type(plain) is int and least <= plain <= LARGEST_NUMBER
