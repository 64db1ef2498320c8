"""What a caller does about hosts that come, go, and are slow: hours of it, in virtual time."""

import asyncio

import pytest

from experts.remote import remote_experts
from experts.remote.wire import Kind
from tests.experts.remote.small_hosts import ALL
from tests.experts.remote.stand_in_hosts import Caller, StandIn
from tests.support.virtual_time import in_virtual_time


@pytest.mark.parametrize("error", [None, EOFError("the host closed the stream")])
def test_a_host_that_leaves_the_table_during_a_call_keeps_no_stream_and_is_not_looked_for(
    monkeypatch: pytest.MonkeyPatch, error: Exception | None
):
    host = StandIn("host")
    caller = Caller(monkeypatch, host)

    async def course() -> None:
        batch = asyncio.create_task(caller.batch())
        await asyncio.sleep(host.seconds / 2)
        caller.table()
        host.error = error
        assert await batch == (set() if error else {ALL[0]})
        assert not host.is_open
        assert host.asked == [Kind.FORWARD]
        assert caller.counts.silent == 0

    in_virtual_time(course)


def test_a_host_that_was_forgotten_is_called_when_it_comes_back(monkeypatch: pytest.MonkeyPatch):
    host = StandIn("host")
    caller = Caller(monkeypatch, host)

    async def course() -> None:
        host.error = EOFError()
        assert await caller.batch() == set()
        caller.table()
        await asyncio.sleep(remote_experts.MOST_LOOKS * 120.0)
        assert not caller._hosts
        host.error = None
        caller.table(host)
        assert await caller.batch() == {ALL[0]}

    in_virtual_time(course)
