"""One stream to a peer, and the queue of what waits for it.

Frames go out as their turn comes, and come in no faster than they are taken in.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable
from typing import TypeAlias

from hivemind.utils import get_logger

from averaging.bandwidth import Meter, OwnLine
from averaging.protocol.messages import Message
from averaging.transport.limits import Budget, Limits
from averaging.transport.window import SMALLEST, Window
from averaging.transport.wire_format import (
    BULKY,
    SLICE,
    FrameKind,
    FrameRefused,
    Lane,
    acknowledgement,
    frame,
    message_head,
    pack,
    read_acknowledgement,
    read_head,
    unpack,
)
from swarm.access.greeting import LONGEST_HELLO

logger = get_logger(__name__)

MOST_UNREAD = 2**20  # bytes of acknowledgements that a peer does not read
AT_ONCE = 2**20  # bytes of a message that are unpacked, and hashed, in the event loop; more are in a thread
# what makes the bytes when their turn has come, and nothing if they are not needed any more
Payload: TypeAlias = Callable[[], bytes | None] | None
Receive = Callable[[Message, bytes | None], None]


class Outbox:
    """A queue with an end. Payloads are made later, and take no room before. `largest` is for a message, in bytes."""

    def __init__(self, most_bytes: int, most_entries: int, largest: int):
        self._most_bytes, self._most_entries, self._largest = most_bytes, most_entries, largest
        self._entries: deque[tuple[bytes, Payload]] = deque()
        self._filled = asyncio.Event()
        self.size = 0  # bytes

    def put(self, encoded: bytes, payload: Payload) -> bool:
        """Whether there was room for the message."""
        if len(self._entries) >= self._most_entries or self.size + len(encoded) > self._most_bytes:
            return False
        self._entries.append((encoded, payload))
        self.size += len(encoded)
        self._filled.set()
        return True

    async def take(self) -> bytes:
        """The next message with its payload, as soon as there is one. Several streams may take from a queue."""
        while True:
            while not self._entries:
                self._filled.clear()
                await self._filled.wait()
            encoded, payload = self._entries.popleft()
            self.size -= len(encoded)
            made = None if payload is None else payload()
            if payload is not None and made is None:
                continue
            packed = pack(encoded, made)
            if len(packed) <= self._largest:
                return packed
            logger.error(f"a message of {len(packed):,} bytes cannot be sent; at most {self._largest:,} can")

    def clear(self) -> None:
        """Drop everything."""
        self._entries.clear()
        self.size = 0

    def __len__(self) -> int:
        return len(self._entries)


class Stream:
    """After the hello, whichever side opened it.

    Args:
        peer: that it leads to, for the budget.
        line: of this peer; all its streams share it.
        receive: takes in a message.
        renewed: takes in a later hello.
    """

    def __init__(
        self,
        lane: Lane,
        peer: str,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        *,
        limits: Limits,
        budget: Budget,
        line: OwnLine,
        clock: Callable[[], float],
        receive: Receive,
        renewed: Callable[[bytes], None],
    ):
        self.lane, self._peer, self._reader, self._writer = lane, peer, reader, writer
        self._limits, self._budget, self._line, self._clock = limits, budget, line, clock
        self._receive, self._renewed = receive, renewed
        self._largest = limits.bulk_frame if lane is Lane.BULK else limits.control_frame
        self._closed = asyncio.Event()
        self.is_in_message = False  # of which some slices are written
        self._reading_until = self._writing_until = float("inf")
        # votes do not wait for a window, so one that is full tells nothing of the line
        self.window = Window(clock, line.upload.meter if lane is Lane.BULK else Meter(clock))
        self.active_at = clock()
        self.received_bytes = 0

    async def run(self, outbox: Outbox) -> None:
        """Send what is in the queue and take in what comes, until either side closes the stream.

        Raises:
            ValueError: the other side sent what no honest peer sends.
        """
        parts = [asyncio.ensure_future(part) for part in (self._read(), self._write(outbox), self._closed.wait())]
        try:
            done, _ = await asyncio.wait(parts, return_when=asyncio.FIRST_COMPLETED)
            for part in done:
                with contextlib.suppress(OSError, EOFError):  # it has ended
                    part.result()
        finally:
            for part in parts:
                part.cancel()
            self._writer.transport.abort()
            await asyncio.gather(*parts, return_exceptions=True)
            self.window.close()

    def close(self) -> None:
        """Have `run` return; what is on its way may be lost."""
        self._closed.set()

    def say(self, framed: bytes) -> None:
        """Send a frame past the queue; a peer that does not read them loses its stream."""
        if self._writer.transport.is_closing():
            return
        self._writer.write(framed)
        if self._writer.transport.get_write_buffer_size() > MOST_UNREAD:
            self.close()

    @property
    def is_open(self) -> bool:
        """Whether it can carry anything more."""
        return not self._closed.is_set() and not self._writer.transport.is_closing()

    def is_stuck(self, now: float) -> bool:
        """Whether a frame takes longer than any line needs for it."""
        patience = self._limits.patience(self.window.in_flight)
        return now > min(self._reading_until, self._writing_until, self.window.waits_since + patience)

    async def _read(self) -> None:
        while not self._closed.is_set():
            kind, size = await read_head(self._reader)
            if kind is FrameKind.MESSAGE:
                await self._read_message(size)
            else:
                await self._read_other(kind, size)
            self.active_at = self._clock()
            await asyncio.sleep(0)  # others have their turn, however much this peer has sent

    async def _read_message(self, size: int) -> None:
        if size > self._largest:
            raise FrameRefused(f"a message of {size:,} bytes")
        async with self._budget.hold(self._peer, size):
            self._reading_until = self._clock() + self._limits.patience(0)
            body = await self._read_body(size)
            came = self._clock()
            self._reading_until = float("inf")
            await self._take_in_message(body)
            del body
            self.say(acknowledgement(came))

    async def _read_body(self, size: int) -> bytes:
        if size <= SLICE:
            return await self._read_slices(size)
        meter = self._line.download.meter
        meter.begin()
        try:
            return await self._read_slices(size)
        finally:
            meter.end()

    async def _read_slices(self, size: int) -> bytes:
        slices: list[bytes] = []
        while size:
            kind, part = await read_head(self._reader)
            if kind is not FrameKind.SLICE:
                await self._read_other(kind, part)
                await asyncio.sleep(0)  # as in `_read`
                continue
            if not min(size, SMALLEST) <= part <= min(size, SLICE):  # many small ones would take far more memory
                raise FrameRefused(f"a slice of {part:,} bytes")
            slices.append(await self._read_slice(part))
            size -= part
            if size:  # the last one is acknowledged with the message
                self.say(acknowledgement(self.active_at))
        return b"".join(slices)

    async def _read_slice(self, size: int) -> bytes:
        download = self._line.download
        self._reading_until += await download.turn(size, is_urgent=self.lane is Lane.CONTROL)
        body = await self._reader.readexactly(size)
        self._reading_until += size / self._limits.slowest  # a head alone holds its room for `stall` only
        self.active_at = self._clock()
        self.received_bytes += size
        download.meter.carried(size)
        return body

    async def _read_other(self, kind: FrameKind, size: int) -> None:
        if kind in (FrameKind.MESSAGE, FrameKind.SLICE) or size > LONGEST_HELLO:
            raise FrameRefused(f"a frame of {size:,} bytes out of place: {kind.name}")
        body = await self._reader.readexactly(size)
        if kind is FrameKind.RECEIVED:
            if not self.window.received(read_acknowledgement(body)):
                raise FrameRefused("an acknowledgement of nothing")
        else:
            self._renewed(body)

    async def _take_in_message(self, body: bytes) -> None:
        message, payload = await asyncio.to_thread(unpack, body) if len(body) > AT_ONCE else unpack(body)
        del body
        if isinstance(message, BULKY) != (self.lane is Lane.BULK):
            raise FrameRefused(f"{type(message).__name__} in the lane for {self.lane.value}")
        self._receive(message, payload)

    async def _write(self, outbox: Outbox) -> None:
        while True:
            await self._room()
            body = memoryview(await outbox.take())
            self.is_in_message = True
            self._writer.write(message_head(len(body)))
            while body:
                size = await self._room(len(body))
                await self._write_slice(bytes(body[:size]))
                body = body[size:]
            self.is_in_message = False

    async def _room(self, wanted: int = 1) -> int:
        """Wait until a slice may be sent; returns its largest size."""
        if self.lane is Lane.CONTROL:
            return SLICE
        await self.window.room(wanted)
        return self.window.slice

    async def _write_slice(self, body: bytes) -> None:
        await self._line.upload.turn(len(body), is_urgent=self.lane is Lane.CONTROL)
        self.window.sent(len(body))
        self._writing_until = self._clock() + self._limits.patience(len(body))
        self._writer.write(frame(FrameKind.SLICE, body))
        await self._writer.drain()
        self._writing_until = float("inf")
        self.active_at = self._clock()
