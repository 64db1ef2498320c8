"""Messages of the protocol as bytes, and back: strict, because whatever arrives may have been made to do harm.

A message is MessagePack: its name and the values of its fields in order, values within it as lists. Reading checks the
types; what follows here checks how large numbers and how long lists are, and by the names of fields, which strings are
digests and which are sessions.
"""

import hashlib
import re
import struct
from enum import Enum
from typing import Any, Union, cast

from averaging.log import packing
from averaging.log.header import Farewell
from averaging.protocol.messages import Chunk, Headers, Log, Message, Piece

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
LEAST: dict[tuple[type, str], int] = {(Farewell, "step"): -1}  # of a peer without a state
WITH_PAYLOAD = (Chunk, Piece)
BULKY = (Chunk, Piece, Log, Headers)  # what must not hold up anything else
_DIGEST = re.compile(r"[0-9a-f]{64}")
_SESSION = re.compile(r"[1-9A-HJ-NP-Za-km-z]{40,64}\.[0-9a-f]{8}")  # peer id in base58, and a random number
_MESSAGES: Any = Union[tuple(Message.__subclasses__())]  # noqa: UP007  (made of a list)
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
    return packing.pack(message)


def decode(encoded: bytes) -> Message:
    """The message with these bytes.

    Raises:
        ValueError: there is none, in one line.
    """
    message = cast(Message, packing.unpack(_MESSAGES, encoded))
    _check(message, type(message).__name__)
    return message


def _check(value: Any, name: str, least: int = 0) -> None:
    """Raise a ValueError unless the value of a field, and all that is in it, is within its limits."""
    if isinstance(value, packing.Packed):
        for field in value.__struct_fields__:
            _check(getattr(value, field), field, LEAST.get((type(value), field), 0))
    elif isinstance(value, tuple):
        if len(value) > MOST.get(name, MOST_ITEMS):
            raise ValueError(f"{name}: a list of {len(value):,} items")
        for item in value:
            _check(item, name)
    elif isinstance(value, str):
        if not isinstance(value, Enum):
            _check_text(value, name)
    elif isinstance(value, bytes):
        if len(value) > LONGEST_BYTES:
            raise ValueError(f"{name}: {len(value):,} bytes")
    elif value is not None and not least <= value <= LARGEST_NUMBER:  # nor is what is not a number
        raise ValueError(f"{name}: {value!r:.40} is not from {least} to {LARGEST_NUMBER}")


def _check_text(text: str, name: str) -> None:
    if len(text) > LONGEST_TEXT or not text.isprintable():
        raise ValueError(f"{name}: no printable text of at most {LONGEST_TEXT} characters")
    expected = _DIGEST if name in DIGESTS else _SESSION if name in SESSIONS else None
    is_empty = not text and name in MAY_BE_EMPTY
    if expected is not None and not is_empty and not expected.fullmatch(text):
        raise ValueError(f"{name}: {text!r:.40} is no {'digest' if expected is _DIGEST else 'session'}")
