"""Hosts that do not answer, or answer too late: what a call costs, and when they are called again."""

import asyncio
import threading
from collections.abc import Coroutine, Sequence
from typing import Any
from unittest.mock import Mock

import pytest

from experts.host import worker as worker_module
from experts.host.call_queue import Call, Direction
from experts.host.computing import Outcome
from experts.remote import availability
from experts.remote.wire import Answer, Kind
from tests.experts.remote.small_hosts import ALL, SmallHosts, held_up, rows, sent
from tests.support.waiting import wait_until

A, B = ALL[0], ALL[1]


pytestmark = pytest.mark.swarm


def test_a_silent_host_costs_one_timeout(hosts: SmallHosts, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(availability, "FIRST_LOOK", 1e6)
    silent, other = hosts.host([A]), hosts.host([B])
    caller = hosts.caller(silent, other)
    inputs = {A: rows(), B: rows()}
    assert set(caller.forward(inputs)) == {A, B}
    with held_up(silent):
        caller._timeout = 0.2
        assert caller.forward({A: rows()}) == {}
        caller._timeout = 60.0  # that of the other one, however slow this machine is
        requests = sent(caller, silent)
        for _ in range(5):
            assert set(caller.forward(inputs)) == {B}
        assert set(caller.alive()) == {B}
        assert sent(caller, silent) == requests
        assert caller.counts.silent == 1


def test_a_silent_host_is_back_when_it_computes_again_and_not_before(
    hosts: SmallHosts, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(availability, "FIRST_LOOK", 0.01)
    host = hosts.host([A])
    caller = hosts.caller(host)
    assert set(caller.forward({A: rows()})) == {A}
    its = caller._hosts[host.p2p.peer_id.to_base58()].availability
    with held_up(host):
        caller._timeout = 0.2
        assert caller.forward({A: rows()}) == {}
        wait_until(lambda: its.failures > 3 or caller.alive(), "looks")
        assert not caller.alive()
        caller._timeout = 60.0
    wait_until(caller.alive, "a look that was answered")
    assert set(caller.forward({A: rows()})) == {A}


def test_a_ping_is_answered_by_the_thread_that_computes(hosts: SmallHosts):
    host = hosts.host([A])
    caller = hosts.caller(host)
    caller.forward({A: rows()})
    connection = caller._hosts[host.p2p.peer_id.to_base58()].connection

    async def ask() -> "asyncio.Task[Any]":
        ping: asyncio.Task[Any] = asyncio.create_task(connection.ask(Kind.PING))
        await asyncio.sleep(0)  # it is sent
        await connection.ask(Kind.STATE)  # of no expert: answered in the event loop, after the ping has come
        assert not ping.done()
        return ping

    async def ended(ping: "asyncio.Task[Any]") -> None:
        await ping

    with held_up(host):
        ping = hosts.loop.call(ask())
    hosts.loop.call(ended(ping))


def test_answers_that_have_come_count_when_the_loop_is_held_up(hosts: SmallHosts, monkeypatch: pytest.MonkeyPatch):
    """The call is given up from outside, before the time limit of its requests, and nobody is to blame."""
    silent, other = hosts.host([A]), hosts.host([B])
    caller, came = hosts.caller(silent, other), threading.Event()
    inputs = {A: rows(), B: rows()}
    assert set(caller.forward(inputs)) == {A, B}
    ask = caller._ask

    async def noted(*arguments: Any) -> int | None:
        answered = await ask(*arguments)
        came.set()
        return answered

    class HeldUp:
        def call(self, work: Coroutine[Any, Any, Any], timeout: float | None = None) -> None:
            hosts.loop.begin(work)
            assert came.wait(120.0)
            raise TimeoutError

    monkeypatch.setattr(caller, "_ask", noted)
    with held_up(silent), monkeypatch.context() as context:
        context.setattr(caller, "_loop", HeldUp())
        assert set(caller.forward(inputs)) == {B}
        assert set(caller.alive()) == {A, B}


def test_an_error_that_nobody_foresaw_costs_one_hosts_answers_and_ends_no_search(
    hosts: SmallHosts, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(availability, "FIRST_LOOK", 0.01)
    first, second = hosts.host([A]), hosts.host([B])
    caller = hosts.caller(first, second)
    inputs = {A: rows(), B: rows()}
    assert set(caller.forward(inputs)) == {A, B}
    host = caller._hosts[first.p2p.peer_id.to_base58()]
    asked: list[Kind] = []
    ask = host.connection.ask

    async def fails(kind: Kind, *_: object) -> tuple[Answer, bytes]:
        asked.append(kind)
        raise RuntimeError("unforeseen")

    host.connection.ask = fails  # type: ignore[method-assign, assignment]
    assert set(caller.forward(inputs)) == {B}
    wait_until(lambda: asked[1:3] == [Kind.PING, Kind.PING], "looks that fail")
    host.connection.ask = ask  # type: ignore[method-assign]
    wait_until(lambda: A in caller.alive(), "a look that was answered")
    assert set(caller.forward(inputs)) == {A, B}


@pytest.mark.parametrize(("direction", "times"), [(Direction.FORWARD, 2), (Direction.BACKWARD, 1)])
def test_a_backward_call_is_not_repeated_when_the_stream_breaks(hosts: SmallHosts, direction: Direction, times: int):
    host = hosts.host([A])
    caller = hosts.caller(host)
    inputs = {A: rows()}
    assert set(caller.forward(inputs)) == {A}
    asked: list[Direction] = []

    async def breaks(calls: Sequence[Call]) -> list[Outcome]:
        asked.extend(call.direction for call in calls)
        raise EOFError("the stream broke")

    host.worker.answers = breaks  # type: ignore[method-assign]
    answers = caller.forward(inputs) if direction is Direction.FORWARD else caller.backward(inputs, inputs)
    assert answers == {}
    assert asked == [direction] * times


def test_a_host_that_has_gone_costs_an_answer_and_no_error(hosts: SmallHosts):
    gone, other = hosts.host([A]), hosts.host([B])
    caller = hosts.caller(gone, other)
    inputs = {A: rows(), B: rows()}
    assert set(caller.forward(inputs)) == {A, B}
    hosts.loop.call(gone.service.stop())
    assert set(caller.forward(inputs)) == {B}
    assert set(caller.alive()) == {B}
    assert set(caller.backward(inputs, inputs)) == {B}
    hosts.loop.call(gone.service.start())
    wait_until(lambda: A in caller.alive(), "its return")
    assert set(caller.forward(inputs)) == {A, B}


def test_a_stream_that_was_closed_meanwhile_costs_nothing(hosts: SmallHosts):
    host = hosts.host([A])
    caller = hosts.caller(host)
    caller.forward({A: rows()})

    async def close() -> None:
        for stream in list(host.service._streams):
            stream.cancel()

    hosts.loop.call(close())
    wait_until(lambda: not host.service._streams, "end of the stream")
    assert set(caller.forward({A: rows()})) == {A}
    assert caller.counts.silent == 0


def test_a_caller_whose_loop_has_ended_gets_no_answers_and_no_error(hosts: SmallHosts):
    caller = hosts.caller(hosts.host([A]))

    class Ended:
        def call(self, work: object, timeout: float | None = None) -> object:
            work.close()  # type: ignore[attr-defined]
            raise RuntimeError("the loop was stopped")

        def soon(self, *_: object) -> None:
            pass

    kept, caller._loop = caller._loop, Ended()  # type: ignore[assignment]
    assert caller.forward({A: rows()}) == {}
    caller._loop = kept


def test_a_batch_that_cannot_be_computed_is_refused_and_the_host_goes_on(
    hosts: SmallHosts, monkeypatch: pytest.MonkeyPatch
):
    host = hosts.host([A])
    caller = hosts.caller(host)
    compute = host.computing.compute
    monkeypatch.setattr(worker_module.logger, "exception", lambda *_: None)
    host.computing.compute = Mock(side_effect=RuntimeError("out of memory"))  # type: ignore[method-assign]
    assert caller.forward({A: rows()}) == {}
    host.computing.compute = compute  # type: ignore[method-assign]
    assert set(caller.forward({A: rows()})) == {A}
