"""What goes over a stream: frames, the first of which says who is there, and is checked.

A frame is one byte that tells its kind, four bytes that tell the length of its body, and the body. A message is a frame
that only tells its length, and frames with a slice of it each, so that what is urgent or small goes between them.
"""

import asyncio
import struct
from enum import Enum, IntEnum
from typing import cast

from hivemind.p2p import PeerID

from averaging.log.packing import Packed, pack, unpack
from averaging.transport.message_codec import is_session_of
from swarm.access.gate import Gate
from swarm.access.passes import LONGEST as LONGEST_PASS
from swarm.access.passes import PassRefused
from swarm.access.refusals import is_blocked

VERSION = 2  # of everything that peers tell each other
LONGEST_HELLO = 2048  # bytes
LONGEST_RUN = 128  # characters
LONGEST_SESSION = 80
SLICE = 32 * 2**10  # bytes of a message that go at once, at most
_HEAD, _TIME = struct.Struct(">BI"), struct.Struct(">Q")


class Lane(str, Enum):
    """Votes are not to wait behind pieces, so peers have two streams."""

    CONTROL = "control"
    BULK = "bulk"


class FrameKind(IntEnum):
    """What a frame is."""

    HELLO = 0  # who speaks; later on, with a renewed pass
    MESSAGE = 1  # the length of one, whose slices follow
    RECEIVED = 2  # the oldest slice that was not acknowledged has come, and when; in the bulk lane
    OPEN_BULK = 3  # open a stream for bulk: I may not be able to reach you
    PING = 4  # answer when you have taken in what was sent before
    PONG = 5
    SLICE = 6


class FrameRefused(ValueError):
    """A frame that no honest peer sends."""


REFUSALS = (ValueError, PassRefused)  # of what a peer sends


class Hello(Packed, frozen=True, forbid_unknown_fields=False):
    """Who speaks on a stream: the body of its first frame. Later versions may say more."""

    version: int
    run: str  # fingerprint
    session: str
    shown: bytes  # a pass


def read_hello_body(body: bytes) -> Hello:
    """Not checked yet but for its form.

    Raises:
        FrameRefused: it is none.
    """
    try:
        hello = cast(Hello, unpack(Hello, body))
    except ValueError as error:
        raise FrameRefused(f"no hello: {error}") from None
    if len(hello.run) > LONGEST_RUN or len(hello.session) > LONGEST_SESSION or len(hello.shown) > LONGEST_PASS:
        raise FrameRefused("a hello that is too long")
    return hello


def frame(kind: FrameKind, body: bytes = b"") -> bytes:
    """A frame as it is sent."""
    return _HEAD.pack(kind, len(body)) + body


def message_head(size: int) -> bytes:
    """The frame before the slices of a message of so many bytes."""
    return _HEAD.pack(FrameKind.MESSAGE, size)


def receipt(came: float) -> bytes:
    """The frame for a slice that came at some time, in seconds of a clock of ours."""
    return frame(FrameKind.RECEIVED, _TIME.pack(round(came * 1e6)))


def read_receipt(body: bytes) -> float:
    """When the slice came, in seconds of the receiver's clock.

    Raises:
        FrameRefused: it is none.
    """
    if len(body) != _TIME.size:
        raise FrameRefused(f"a receipt of {len(body)} bytes")
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


async def read_hello(reader: asyncio.StreamReader) -> Hello:
    """The first frame of a stream, which is read before anything is known of the other side.

    Raises:
        FrameRefused: it is another one.
        asyncio.IncompleteReadError: the stream has ended.
    """
    kind, size = await read_head(reader)
    if kind is not FrameKind.HELLO or size > LONGEST_HELLO:
        raise FrameRefused(f"a stream that begins with {kind.name} of {size:,} bytes")
    return read_hello_body(await reader.readexactly(size))


class Greeting:
    """Makes our hello, and checks those of others."""

    def __init__(self, gate: Gate, run: str, session: str):
        self._gate, self._run, self.session = gate, run, session
        self._shown = self._own_pass()

    @property
    def hello(self) -> bytes:
        """Ours, with the newest pass."""
        return pack(Hello(VERSION, self._run, self.session, self._own_pass()))

    def is_renewed(self) -> bool:
        """Whether our pass is another one than at the last question."""
        before, self._shown = self._shown, self._own_pass()
        return self._shown != before

    def check(self, hello: Hello, peer_id: PeerID) -> None:
        """Raises FrameRefused or PassRefused if this is no session of that peer in this run."""
        if is_blocked(peer_id):
            raise FrameRefused("it was refused too often")
        if (hello.version, hello.run) != (VERSION, self._run):
            theirs = f"version {hello.version} in run {hello.run!r:.80}"
            raise FrameRefused(f"it speaks {theirs}, we speak {VERSION} in {self._run}")
        if not is_session_of(hello.session, peer_id.to_base58()):
            raise FrameRefused(f"session {hello.session!r:.80} is not its own")
        if hello.session == self.session:
            raise FrameRefused("it is this session itself")
        self.admit(peer_id, hello.shown)

    def admit(self, peer_id: PeerID, shown: bytes) -> None:
        """Raises PassRefused if this pass is not good now."""
        self._gate.admit(peer_id, shown)

    def _own_pass(self) -> bytes:
        return self._gate.own.to_bytes()
