"""Streams of the log by hand: any hello, any frames, and what comes back."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import TypeVar

from hivemind.p2p import P2P, PeerID

from averaging.log.packing import pack as encode
from averaging.log.packing import pack as packed
from averaging.protocol.messages import Message
from averaging.transport.streams import HANDLES
from averaging.transport.wire_format import (
    BULKY,
    FrameKind,
    Lane,
    acknowledgement,
    frame,
    pack,
    read_head,
    read_hello,
    unpack,
)
from swarm.access.greeting import Hello
from tests.averaging.transport.peers import framed
from tests.support.waiting import PATIENCE

M = TypeVar("M", bound=Message)


class Conversation:
    """With one peer that has answered our hello, over a stream in each lane."""

    def __init__(self, streams: dict[Lane, tuple[asyncio.StreamReader, asyncio.StreamWriter]]):
        self._streams = streams

    def tell(self, message: Message, payload: bytes | None = None) -> None:
        """Send a message."""
        lane = Lane.BULK if isinstance(message, BULKY) else Lane.CONTROL
        self._streams[lane][1].write(framed(pack(encode(message), payload)))

    async def ask(self, message: Message, answer: type[M]) -> tuple[M, bytes]:
        """Send a message and wait for one of this kind, with its payload."""
        self.tell(message)
        lane = Lane.BULK if issubclass(answer, BULKY) else Lane.CONTROL
        reader, writer = self._streams[lane]
        while True:
            found, payload = unpack(await _next_message(reader, writer))
            if isinstance(found, answer):
                return found, payload or b""


async def _next_message(reader: asyncio.StreamReader, acknowledgements: asyncio.StreamWriter) -> bytes:
    """All of its slices."""
    size, slices = 0, b""
    while not size or len(slices) < size:
        kind, length = await read_head(reader)
        if kind is FrameKind.MESSAGE:
            size = length
            continue
        body = await reader.readexactly(length)
        if kind is FrameKind.SLICE:
            slices += body
            acknowledgements.write(acknowledgement(0.0))
    return slices


@contextlib.asynccontextmanager
async def conversation(p2p: P2P, peer: PeerID, hello: Hello) -> AsyncIterator[Conversation]:
    """Begin one; raises `EOFError` or `OSError` where the peer closes a stream instead of answering."""
    streams = {}
    try:
        for lane in Lane:
            _, reader, writer = await p2p.call_binary_stream_handler(peer, HANDLES[lane])
            streams[lane] = reader, writer
            writer.write(frame(FrameKind.HELLO, packed(hello)))
            await read_hello(reader, PATIENCE)
        yield Conversation(streams)
    finally:
        for _, writer in streams.values():
            writer.close()
