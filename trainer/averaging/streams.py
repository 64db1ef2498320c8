"""Streams of messages that arrive to the last one.

When a process ends a stream, its libp2p daemon closes both directions, one after the other, and now and then
resets the stream in between. What was sent and not read yet is lost with it: a part of a mean, a state or a seat in a
group. So here whoever answers says that this was all and waits, and whoever asked closes the stream. Refusals are
sent as before: nothing is lost with them.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from typing import TypeVar

M = TypeVar("M")  # messages of one kind
READING = 300.0  # seconds that whoever asked has to read what is on its way: megabytes in buffers before a thin line


class StreamCutShort(ConnectionError):
    """An answer broke off before its end."""


async def with_end(messages: AsyncIterator[M], end: M) -> AsyncIterator[M]:
    """The messages of an answer and `end`, an empty one; then wait for whoever asked to close the stream.

    hivemind cancels what still answers when that happens, if all that was sent to it has been taken in.
    """
    async for message in messages:
        yield message
    yield end
    await asyncio.sleep(READING)


async def until_end(messages: AsyncGenerator[M, None], end: M) -> AsyncIterator[M]:
    """The messages of an answer, without its `end`; then close the stream.

    Raises:
        StreamCutShort: the stream ended before.
    """
    try:
        async for message in messages:
            if message == end:
                return
            yield message
        raise StreamCutShort("the stream ended before all of the answer had arrived")
    finally:
        await messages.aclose()
