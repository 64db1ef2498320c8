"""Calls over real streams: what comes back, and what a caller does about hosts that do not answer."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch

from experts.codec import decode, encode
from experts.host import worker as worker_module
from experts.host.computing import Outcome
from experts.host.settings import ExpertSettings
from experts.remote.remote_experts import RemoteExperts
from tests.experts.remote.small_hosts import ALL, SETTINGS, Host, SmallHosts, rows
from tests.support.waiting import wait_until

A, B = ALL[0], ALL[1]


pytestmark = pytest.mark.swarm


def sent(caller: RemoteExperts, host: Host) -> int:
    return caller._hosts[host.p2p.peer_id.to_base58()].connection.requests


@contextmanager
def held_up(host: Host) -> Iterator[None]:
    """Its computing thread does nothing meanwhile; it is a frozen host, as far as callers can see."""
    go_on = threading.Event()

    holds = host.worker._thread.submit(go_on.wait)
    try:
        yield
    finally:
        go_on.set()
        holds.result()


def test_answers_are_those_of_the_experts(hosts: SmallHosts):
    here, there = hosts.host([A]), hosts.host([B])
    caller = hosts.caller(here, there)
    assert set(caller.alive()) == {A, B}
    inputs = {A: rows(3, 1), B: rows(4, 2)}
    outputs = caller.forward(inputs)
    assert set(outputs) == {A, B}
    for host, uid in ((here, A), (there, B)):
        seen = decode(encode(inputs[uid]), len(inputs[uid]), SETTINGS.width)
        expected = host.computing.experts[uid].forward(seen)
        torch.testing.assert_close(outputs[uid], expected, atol=float(expected.abs().max()) / 127, rtol=0)
    gradients = caller.backward(inputs, {uid: torch.ones_like(one) for uid, one in inputs.items()})
    assert {uid: one.shape for uid, one in gradients.items()} == {uid: one.shape for uid, one in inputs.items()}
    assert (here.versions, there.versions) == ({A: 1}, {B: 1})
    assert (caller.counts.asked, caller.counts.answered, caller.counts.silent) == (4, 4, 0)


def test_one_request_goes_to_each_host(hosts: SmallHosts):
    host = hosts.host()
    caller = hosts.caller(host)
    caller.forward({uid: rows() for uid in ALL})
    assert sent(caller, host) == 1


def test_more_rows_than_a_host_takes_at_once_are_several_requests(hosts: SmallHosts):
    host = hosts.host()
    caller = hosts.caller(host)
    caller._most_rows = 5
    outputs = caller.forward({uid: rows(4) for uid in ALL})
    assert set(outputs) == set(ALL)


def test_an_expert_with_more_rows_than_a_request_holds_is_not_called_and_the_others_are(hosts: SmallHosts):
    host = hosts.host()
    caller = hosts.caller(host)
    most = host.worker.limits.request_rows
    assert set(caller.forward({A: rows(most + 1), B: rows(most)})) == {B}
    assert set(caller.alive()) == set(ALL)


def test_rows_of_no_expert_and_no_rows_of_an_expert(hosts: SmallHosts):
    host = hosts.host([A])
    caller = hosts.caller(host)
    assert caller.forward({}) == {}
    outputs = caller.forward({A: rows(0), B: rows()})
    assert {uid: tuple(one.shape) for uid, one in outputs.items()} == {A: (0, SETTINGS.width)}


def test_a_gradient_tells_the_version_of_its_forward_call(hosts: SmallHosts):
    host = hosts.host([A])
    caller = hosts.caller(host)
    expert = host.computing.experts[A]
    inputs = {A: rows()}
    expert.version = 500
    caller.forward(inputs)
    caller.backward(inputs, inputs)
    assert expert.version == 501
    caller.forward({A: rows(3, 9)})
    expert.version = 501 + SETTINGS.max_staleness + 1
    assert set(caller.backward(inputs, inputs)) == {A}
    assert expert.version == 501 + SETTINGS.max_staleness + 1  # answered, but too old for a step


def test_a_silent_host_costs_one_timeout_and_is_back_when_it_answers(hosts: SmallHosts):
    silent, other = hosts.host([A]), hosts.host([B])
    caller = hosts.caller(silent, other, timeout=1.0)
    inputs = {A: rows(), B: rows()}
    wait_until(lambda: set(caller.forward(inputs)) == {A, B}, "answers of both")  # however slow this machine is
    before = caller.counts.silent
    with held_up(silent):
        wait_until(lambda: A not in caller.forward(inputs), "a call without an answer")
        assert A not in caller.alive()
        calls = caller.counts.answered
        for _ in range(5):
            assert A not in caller.forward(inputs)
        assert caller.counts.answered == calls + 5  # of the other one
        assert caller.counts.silent == before + 1
    wait_until(lambda: A in caller.alive(), "a look that was answered")
    wait_until(lambda: A in caller.forward(inputs), "answers again")


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


def test_hosts_that_the_table_no_longer_names_are_not_called(hosts: SmallHosts):
    host = hosts.host([A])
    caller = hosts.caller(host)
    caller.forward({A: rows()})
    caller.use({})
    assert not caller.alive()
    assert caller.forward({A: rows()}) == {}
    wait_until(lambda: not host.service._streams, "end of the stream")


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


def test_a_host_that_answers_with_huge_numbers_is_left_out(hosts: SmallHosts):
    host = hosts.host([A])
    caller = hosts.caller(host)
    with torch.no_grad():
        host.computing.experts[A].network.out.bias.fill_(1e6)
    assert caller.forward({A: rows()}) == {}
    wait_until(lambda: not caller.alive(), "a host that is left out")


def test_experts_of_other_settings_are_not_called(hosts: SmallHosts):
    host = hosts.host([A])
    caller = hosts.caller(host, settings=ExpertSettings(grid=(2, 2), width=8, hidden=32))
    assert caller.forward({A: rows()}) == {}
    assert not caller.alive()
    assert host.service.refused


def test_a_batch_that_cannot_be_computed_is_refused_and_the_host_goes_on(
    hosts: SmallHosts, monkeypatch: pytest.MonkeyPatch
):
    host = hosts.host([A])
    caller = hosts.caller(host)
    compute = host.computing.compute
    monkeypatch.setattr(worker_module.logger, "exception", lambda *_: None)

    def fails(calls: object) -> list[Outcome]:
        raise RuntimeError("out of memory")

    host.computing.compute = fails  # type: ignore[method-assign]
    assert caller.forward({A: rows()}) == {}
    host.computing.compute = compute  # type: ignore[method-assign]
    assert set(caller.forward({A: rows()})) == {A}
