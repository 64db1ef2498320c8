"""A caller's stream to a host that cannot be reached or says nothing."""

import asyncio
from typing import Any
from unittest.mock import AsyncMock, Mock

import pytest

from experts.host.settings import ExpertSettings
from experts.remote.connection import HostConnection
from experts.remote.wire import Answer, Kind, message
from swarm.access.greeting import Hello
from swarm.tasks import within

SETTINGS = ExpertSettings(grid=(2, 2), width=4, hidden=8)
HELLO = Hello(1, "run", b"")


class Silent:
    """A libp2p daemon that never opens a stream, or opens streams on which nothing comes."""

    def __init__(self, opens: bool):
        self._opens = opens
        self.asked = 0
        self.writers: list[Any] = []

    async def call_binary_stream_handler(self, *_: object) -> tuple[None, asyncio.StreamReader, Any]:
        self.asked += 1
        if not self._opens:
            await asyncio.Event().wait()
        self.writers.append(Mock())
        return None, asyncio.StreamReader(), self.writers[-1]


@pytest.mark.parametrize("opens", [False, True], ids=["no stream", "no hello"])
async def test_opening_a_stream_ends_and_may_be_tried_again(monkeypatch: pytest.MonkeyPatch, opens: bool):
    silent = Silent(opens)
    host = HostConnection(silent, Mock(hello=lambda: HELLO), SETTINGS, Mock())
    for _ in range(2):
        with pytest.raises(asyncio.TimeoutError):
            await host.ask(Kind.PING)
    assert silent.asked == 2
    assert all(writer.transport.abort.called for writer in silent.writers)
    assert len(silent.writers) == (2 if opens else 0)


@pytest.mark.parametrize("number", [1, 2])
async def test_answers_that_nobody_asked_for_end_the_stream(number: int):
    writer, p2p = Mock(), Mock()
    reader = asyncio.StreamReader()
    p2p.call_binary_stream_handler = AsyncMock(return_value=(None, reader, writer))
    host = HostConnection(p2p, Mock(hello=lambda: HELLO), SETTINGS, Mock())
    reader.feed_data(message(HELLO))
    ask = asyncio.create_task(host.ask(Kind.PING))
    async with within(60.0):
        while host.requests == 0 and not ask.done():
            await asyncio.sleep(0.01)
    reader.feed_data(message(Answer(1)))
    assert await ask == (Answer(1), b"")
    assert not writer.transport.abort.called
    reader.feed_data(message(Answer(number)))
    assert host._reading is not None
    await asyncio.wait([host._reading], timeout=60.0)
    assert writer.transport.abort.called
