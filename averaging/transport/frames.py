"""What goes over a stream: frames, the first of which says who is there.

A frame is one byte that tells its kind, four bytes that tell the length of its body, and the body.
"""

import asyncio
import struct
from dataclasses import dataclass
from enum import Enum, IntEnum

import msgpack

from swarm.passes import LONGEST as LONGEST_PASS

VERSION = 1  # of everything that peers tell each other
LONGEST_HELLO = 2048  # bytes
LONGEST_RUN = 128  # characters
LONGEST_SESSION = 80
_HEAD = struct.Struct(">BI")


class Lane(str, Enum):
    """Votes are not to wait behind pieces, so peers have two streams."""

    CONTROL = "control"
    BULK = "bulk"


class Kind(IntEnum):
    """What a frame is."""

    HELLO = 0  # who speaks; later on, with a renewed pass
    MESSAGE = 1
    RECEIVED = 2  # the oldest message that was not acknowledged is taken in; for messages of the bulk lane
    OPEN_BULK = 3  # open a stream for bulk: I may not be able to reach you
    PING = 4  # answer when you have taken in what was sent before
    PONG = 5


class FrameRefused(ValueError):
    """A frame that no honest peer sends."""


@dataclass(frozen=True)
class Hello:
    """Who speaks on a stream."""

    run: str  # fingerprint
    session: str
    shown: bytes  # a pass; empty where the run has none
    version: int = VERSION

    def to_bytes(self) -> bytes:
        """The body of its frame."""
        return bytes(msgpack.packb([self.version, self.run, self.session, self.shown]))

    @staticmethod
    def from_bytes(body: bytes) -> "Hello":
        """Not checked yet but for its form.

        Raises:
            FrameRefused: it is none.
        """
        try:
            version, run, session, shown, *_ = msgpack.unpackb(body, max_map_len=0, max_ext_len=0)
        except (TypeError, ValueError, msgpack.exceptions.UnpackException):
            raise FrameRefused("no hello") from None
        if [type(one) for one in (version, run, session, shown)] != [int, str, str, bytes]:
            raise FrameRefused("a malformed hello")
        if len(run) > LONGEST_RUN or len(session) > LONGEST_SESSION or len(shown) > LONGEST_PASS:
            raise FrameRefused("a hello that is too long")
        return Hello(run, session, shown, version)


def frame(kind: Kind, body: bytes = b"") -> bytes:
    """A frame as it is sent."""
    return _HEAD.pack(kind, len(body)) + body


async def read_head(reader: asyncio.StreamReader) -> tuple[Kind, int]:
    """The kind of the next frame, and the length of its body in bytes.

    Raises:
        FrameRefused: there is no such kind.
        asyncio.IncompleteReadError: the stream has ended.
    """
    kind, size = _HEAD.unpack(await reader.readexactly(_HEAD.size))
    try:
        return Kind(kind), size
    except ValueError:
        raise FrameRefused(f"a frame of kind {kind}") from None


async def read_hello(reader: asyncio.StreamReader) -> Hello:
    """The first frame of a stream, which is read before anything is known of the other side.

    Raises:
        FrameRefused: it is another one.
        asyncio.IncompleteReadError: the stream has ended.
    """
    kind, size = await read_head(reader)
    if kind is not Kind.HELLO or size > LONGEST_HELLO:
        raise FrameRefused(f"a stream that begins with {kind.name} of {size:,} bytes")
    return Hello.from_bytes(await reader.readexactly(size))
