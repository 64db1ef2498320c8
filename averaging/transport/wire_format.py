"""What goes over a stream: messages of the protocol as bytes, in frames, the first of which says who is there.

Strict, because whatever arrives may have been made to do harm. A message is MessagePack: its name and the values of its
fields in order, values within it as lists. Reading checks the types; what follows here checks how large numbers and how
long lists are, and by the names of fields, which strings are digests and which are sessions.

A frame is one byte that tells its kind, four bytes that tell the length of its body, and the body. A message is a frame
that only tells its length, and frames with a slice of it each, so that what is urgent or small goes between them.
"""

import asyncio
import hashlib
import re
import struct
from enum import Enum, IntEnum
from typing import Any, Union, cast

from averaging.log import packing
from averaging.log.header import Farewell, peer_of
from averaging.protocol.buffers import MOST_OFFERED
from averaging.protocol.messages import Chunk, Headers, Log, Message, Piece, ShownAccount, ShownPiece
from swarm.access.greeting import LONGEST_HELLO, Hello
from swarm.access.user_names import is_one_line
from swarm.tasks import within

LONGEST_TEXT = 128  # characters of a string
LONGEST_BYTES = 1200  # of a signature with its key, and a pass
LARGEST_NUMBER = 2**63 - 1
MOST_ITEMS = 4096  # in a list, if it is not one of those below
MOST = {
    **dict.fromkeys(("chunks", "digests", "exclusions", "missing"), 2**16),
    **dict.fromkeys(("voters", "votes", "goodbyes", "signatures", "contacts", "connected"), 64),
    "buffers": MOST_OFFERED,
}
DIGESTS = frozenset({"digest", "digests", "instance", "previous", "chunks"})
_OF_SESSIONS = "session convener reducer voters votes goodbyes tie_breaker members clients missing resting loud"
SESSIONS = frozenset((*_OF_SESSIONS.split(), "connected"))
MAY_BE_EMPTY = frozenset({"instance", "previous", "tie_breaker"})
LEAST: dict[tuple[type, str], int] = {(Farewell, "step"): -1}  # of a peer without a state
WITH_PAYLOAD = (Chunk, Piece, ShownPiece, ShownAccount)
BULKY = (*WITH_PAYLOAD, Log, Headers)  # what must not hold up anything else
_DIGEST = re.compile(r"[0-9a-f]{64}")
_SESSION = re.compile(r"[1-9A-HJ-NP-Za-km-z]{40,64}\.[0-9a-f]{8}")  # peer id in base58, and a random number
_MESSAGES: Any = Union[tuple(Message.__subclasses__())]  # noqa: UP007  (made of a list)
_LENGTH = struct.Struct(">I")

VERSION = 13  # of everything that peers tell each other
SLICE = 32 * 2**10  # bytes of a message that go at once, at most
_HEAD, _TIME = struct.Struct(">BI"), struct.Struct(">Q")


def pack(encoded: bytes, payload: bytes | None = None) -> bytes:
    """An encoded message and the bytes that belong to it, which are those of a chunk or of a piece."""
    return b"".join((_LENGTH.pack(len(encoded)), encoded, payload or b""))


def unpack(packed: bytes) -> tuple[Message, bytes | None]:
    """The message and its payload. A long chunk takes a while, because it is hashed.

    Raises:
        ValueError: this is no message, or a chunk without the digest that it was sent under; in one line.
    """
    if len(packed) < _LENGTH.size:
        raise ValueError(f"a message of {len(packed)} bytes")
    (length,) = _LENGTH.unpack_from(packed)
    end = _LENGTH.size + length
    message = decode(packed[_LENGTH.size : end])
    if end > len(packed) or isinstance(message, WITH_PAYLOAD) != (len(packed) > end):
        raise ValueError(f"{type(message).__name__}: {len(packed) - end} bytes of payload")
    payload = packed[end:]
    if isinstance(message, Chunk) and hashlib.sha256(payload).hexdigest() != message.digest:
        raise ValueError("a chunk without the digest that it was sent under")
    return message, payload or None


def is_session_of(session: str, peer_id: str) -> bool:
    """Whether a session is one of this peer; its id in base58."""
    return _SESSION.fullmatch(session) is not None and peer_of(session) == peer_id


def decode(encoded: bytes) -> Message:
    """The message with these bytes, which `packing.pack` has made.

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
    if len(text) > LONGEST_TEXT or not (text.isprintable() or is_one_line(text)):  # names may have joiners
        raise ValueError(f"{name}: no line of at most {LONGEST_TEXT} characters")
    expected = _DIGEST if name in DIGESTS else _SESSION if name in SESSIONS else None
    is_empty = not text and name in MAY_BE_EMPTY
    if expected is not None and not is_empty and not expected.fullmatch(text):
        raise ValueError(f"{name}: {text!r:.40} is no {'digest' if expected is _DIGEST else 'session'}")


class Lane(str, Enum):
    """Votes are not to wait behind pieces, so peers have two streams."""

    CONTROL = "control"
    BULK = "bulk"


class FrameKind(IntEnum):
    """What a frame is."""

    HELLO = 0  # who speaks (`swarm.access.greeting`); later on, with a renewed pass
    MESSAGE = 1  # the length of one, whose slices follow
    RECEIVED = 2  # the oldest slice that was not acknowledged has come, and when; a last one is taken in
    SLICE = 3


class FrameRefused(ValueError):
    """A frame that no honest peer sends."""


def read_hello_body(body: bytes) -> Hello:
    """Not checked yet but for its form.

    Raises:
        FrameRefused: it is none.
    """
    try:
        return cast(Hello, packing.unpack(Hello, body))
    except ValueError as error:
        raise FrameRefused(f"no hello: {error}") from None


def frame(kind: FrameKind, body: bytes = b"") -> bytes:
    """A frame as it is sent."""
    return _HEAD.pack(kind, len(body)) + body


def message_head(size: int) -> bytes:
    """The frame before the slices of a message of so many bytes."""
    return _HEAD.pack(FrameKind.MESSAGE, size)


def acknowledgement(came: float) -> bytes:
    """The frame for a slice that came at some time, in seconds of a clock of ours."""
    return frame(FrameKind.RECEIVED, _TIME.pack(round(came * 1e6)))


def read_acknowledgement(body: bytes) -> float:
    """When the slice came, in seconds of the receiver's clock.

    Raises:
        FrameRefused: it is none.
    """
    if len(body) != _TIME.size:
        raise FrameRefused(f"an acknowledgement of {len(body)} bytes")
    return float(_TIME.unpack(body)[0] / 1e6)


async def read_head(reader: asyncio.StreamReader) -> tuple[FrameKind, int]:
    """The kind of the next frame, and the length of its body in bytes.

    Raises:
        FrameRefused: there is no such kind.
        asyncio.IncompleteReadError: the stream has ended.
    """
    kind, size = _HEAD.unpack(await reader.readexactly(_HEAD.size))
    try:
        return FrameKind(kind), size
    except ValueError:
        raise FrameRefused(f"a frame of kind {kind}") from None


async def read_hello(reader: asyncio.StreamReader, seconds: float) -> Hello:
    """The first frame of a stream, which is read before anything is known of the other side.

    Raises:
        FrameRefused: it is another one.
        asyncio.IncompleteReadError: the stream has ended.
        asyncio.TimeoutError: it has not come in so many seconds.
    """
    async with within(seconds):
        kind, size = await read_head(reader)
        if kind is not FrameKind.HELLO or size > LONGEST_HELLO:
            raise FrameRefused(f"a stream that begins with {kind.name} of {size:,} bytes")
        return read_hello_body(await reader.readexactly(size))
