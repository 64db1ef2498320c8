"""What a caller does about hosts that come, go, and are slow: hours of it, in virtual time."""

import asyncio

import pytest

from experts.remote.availability import MOST_LATE
from experts.remote.remote_experts import PATIENCE_FACTOR
from experts.remote.wire import Kind
from tests.experts.remote.small_hosts import ALL
from tests.experts.remote.stand_in_hosts import Caller, StandIn


@pytest.mark.parametrize("error", [None, EOFError("the host closed the stream")])
async def test_a_host_that_leaves_the_table_during_a_call_keeps_no_stream_and_is_not_looked_for(
    monkeypatch: pytest.MonkeyPatch, error: Exception | None
):
    host = StandIn("host")
    caller = Caller(monkeypatch, host)
    batch = asyncio.create_task(caller.batch())
    await asyncio.sleep(host.seconds / 2)
    caller.table()
    host.error = error
    assert await batch == (set() if error else {ALL[0]})
    assert not host.is_open
    assert host.asked == [Kind.FORWARD]
    assert caller.counts.silent == 0


async def test_a_silent_host_that_has_left_the_table_is_called_when_it_comes_back(monkeypatch: pytest.MonkeyPatch):
    host = StandIn("host")
    caller = Caller(monkeypatch, host)
    host.error = EOFError()
    assert await caller.batch() == set()
    caller.table()
    await asyncio.sleep(60.0)
    assert host.asked == [Kind.FORWARD] and not caller._tasks, "nor is it looked for any longer"
    host.error = None
    caller.table(host)
    assert await caller.batch() == {ALL[0]}


async def test_one_host_of_several_that_is_slow_holds_batches_up_a_little_and_then_not_at_all(
    monkeypatch: pytest.MonkeyPatch,
):
    *quick, slow = hosts = [StandIn(str(number)) for number in range(4)]
    slow.seconds = 2.9
    caller = Caller(monkeypatch, *hosts)
    for number in range(5):
        begin = asyncio.get_running_loop().time()
        assert await caller.batch() == set(ALL[:3])
        took = asyncio.get_running_loop().time() - begin
        assert took == pytest.approx(PATIENCE_FACTOR * quick[0].seconds if number < MOST_LATE else quick[0].seconds)
    assert slow.asked == [Kind.FORWARD] * MOST_LATE
    assert not slow.is_open


@pytest.mark.parametrize("seconds", [(2.9,), (0.1, 2.9), (0.1, 2.9, 2.9), (0.1, 0.15, 0.2, 0.39), (0.01, 0.01, 0.24)])
async def test_more_than_half_of_the_rows_are_waited_for_and_those_that_take_about_as_long(
    monkeypatch: pytest.MonkeyPatch, seconds: tuple[float, ...]
):
    hosts = [StandIn(str(number)) for number in range(len(seconds))]
    caller = Caller(monkeypatch, *hosts)
    for host, its in zip(hosts, seconds, strict=True):
        host.seconds = its
    for _ in range(MOST_LATE + 1):
        assert await caller.batch() == set(ALL[: len(hosts)])


async def test_hosts_that_fail_at_once_do_not_hurry_the_others(monkeypatch: pytest.MonkeyPatch):
    *failing, good = hosts = [StandIn(str(number)) for number in range(4)]
    caller = Caller(monkeypatch, *hosts)
    for host in failing:
        host.seconds, host.error = 0.0, OSError("no route")
    good.seconds = 2.9
    assert await caller.batch() == {ALL[3]}


async def test_hosts_that_refuse_at_once_do_not_hurry_the_others(monkeypatch: pytest.MonkeyPatch):
    *busy, good = hosts = [StandIn(str(number)) for number in range(4)]
    caller = Caller(monkeypatch, *hosts)
    for host in busy:
        host.refused = "busy"
    good.seconds = 2.9
    for _ in range(MOST_LATE):
        assert ALL[3] in await caller.batch()
    assert set(caller.alive()) == set(ALL[:4])


@pytest.mark.parametrize("refused", ["", "busy"])
async def test_a_host_that_is_late_now_and_then_is_not_left_out(monkeypatch: pytest.MonkeyPatch, refused: str):
    hosts = [StandIn(str(number)) for number in range(3)]
    caller = Caller(monkeypatch, *hosts)
    for number in range(20):
        answers = number % MOST_LATE == 0
        hosts[2].seconds, hosts[2].refused = (0.1, refused) if answers else (1.0, "")
        await caller.batch()
    assert caller.counts.silent == 0


async def test_a_host_that_is_late_with_backward_calls_alone_is_left_out(monkeypatch: pytest.MonkeyPatch):
    hosts = [StandIn(str(number)) for number in range(3)]
    caller = Caller(monkeypatch, *hosts)
    for _ in range(MOST_LATE):
        for kind, seconds in ((Kind.FORWARD, 0.1), (Kind.BACKWARD, 2.9)):
            hosts[2].seconds = seconds
            await caller.batch(kind)
    assert set(caller.alive()) == set(ALL[:2])


async def test_a_caller_that_does_not_hurry_waits_for_slow_hosts(monkeypatch: pytest.MonkeyPatch):
    hosts = [StandIn(str(number)) for number in range(3)]
    caller = Caller(monkeypatch, *hosts, hurries=False)
    hosts[2].seconds = 2.9
    for _ in range(MOST_LATE + 1):
        assert await caller.batch() == set(ALL[:3])


@pytest.mark.parametrize(
    ("refused", "error", "is_lost"),
    [
        ("", None, False),
        ("busy", None, False),
        ("leaving", None, True),
        ("not here", None, True),
        ("", OSError(), True),
    ],
)
async def test_a_caller_notes_when_an_expert_has_lost_its_host(
    monkeypatch: pytest.MonkeyPatch, refused: str, error: Exception | None, is_lost: bool
):
    host, other = StandIn("host"), StandIn("other")
    caller = Caller(monkeypatch, host, other)
    caller.lost_at = long_ago = float("-inf")
    host.refused, host.error = refused, error
    await caller.batch()
    assert (caller.lost_at > long_ago) is is_lost


def test_an_expert_that_is_listed_no_longer_has_lost_its_host(monkeypatch: pytest.MonkeyPatch):
    host, other = StandIn("host"), StandIn("other")
    caller = Caller(monkeypatch, host, other)
    caller.lost_at = long_ago = float("-inf")
    caller.table(other, host)
    assert caller.lost_at == long_ago, "another host has it"
    caller.table(host)
    assert caller.lost_at > long_ago
