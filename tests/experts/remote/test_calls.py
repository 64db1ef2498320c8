"""Calls over real streams: what is asked, and what comes back."""

from collections.abc import Sequence
from pathlib import Path

import pytest
import torch

from experts.codec import decode, encode
from experts.host.call_queue import Call
from experts.host.computing import Outcome
from experts.host.files import StateFiles
from experts.host.settings import ExpertSettings
from experts.layer.calling import call_experts
from experts.layer.gate import Choice
from experts.remote import wire
from experts.remote.availability import MOST_REFUSED
from experts.remote.connection import HostConnection
from experts.remote.recovering import Recovering
from experts.remote.wire import Kind
from tests.experts.remote.small_hosts import ALL, RUN, SETTINGS, Host, SmallHosts, rows, sent
from tests.support.waiting import wait_until

A, B = ALL[0], ALL[1]


pytestmark = pytest.mark.swarm


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


def peer_of(host: Host) -> str:
    return host.p2p.peer_id.to_base58()


def test_rows_that_came_back_both_ways_are_counted_for_their_host(hosts: SmallHosts):
    here, there = hosts.host([A, ALL[2]]), hosts.host([B])
    caller = hosts.caller(here, there)
    inputs = {A: rows(3, 1), B: rows(4, 2), ALL[2]: rows(5, 3), ALL[3]: rows(6)}
    caller.forward(inputs)
    assert not caller.served
    gradients = {uid: torch.ones_like(one) for uid, one in inputs.items()}
    for times in (1, 2):
        assert set(caller.backward(inputs, gradients)) == {A, B, ALL[2]}
        assert caller.served == {peer_of(here): 8 * times, peer_of(there): 4 * times}
    there.computing.experts.clear()
    caller.backward(inputs, gradients)
    assert caller.served == {peer_of(here): 24, peer_of(there): 8}, "what is refused was not served"


def test_a_host_hears_from_the_coordinator_where_the_schedule_is(hosts: SmallHosts, tmp_path: Path):
    coordinator, p2p = hosts.host([A]), hosts.peers.daemon()
    coordinator.schedule_factor = 0.25
    greeting = wire.greeting(hosts.guarded.gate("host", p2p.peer_id), RUN, SETTINGS)
    files = StateFiles(tmp_path / "states", SETTINGS)
    told: list[float] = []
    asking = Recovering(
        lambda peer: HostConnection(p2p, greeting, SETTINGS, peer),
        lambda: peer_of(coordinator),
        SETTINGS,
        files,
        60.0,
        told.append,
    )
    hosts.loop.call(asking.newer({}))
    assert told == [0.25]


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


def test_rows_of_no_expert(hosts: SmallHosts):
    caller = hosts.caller(hosts.host([A]))
    assert caller.forward({}) == {}
    assert caller.forward({B: rows()}) == {}


def test_an_expert_that_refuses_again_and_again_is_left_out_until_it_may_answer(hosts: SmallHosts):
    host, other = hosts.host([A, B]), hosts.host([A])
    caller = hosts.caller(host)
    expert = host.computing.experts.pop(A)
    for _ in range(MOST_REFUSED):
        assert set(caller.alive()) == {A, B}
        assert set(caller.forward({A: rows(), B: rows()})) == {B}
    assert set(caller.alive()) == {B}
    caller.use({A: other.p2p.peer_id, B: host.p2p.peer_id})
    assert set(caller.alive()) == {A, B}, "another host serves it now"
    caller.use(dict.fromkeys((A, B), host.p2p.peer_id))
    for _ in range(MOST_REFUSED):
        caller.forward({A: rows()})
    assert set(caller.alive()) == {B}
    caller._refusals[Kind.FORWARD, A].until = 0.0  # later
    assert set(caller.alive()) == {A, B}
    caller.forward({A: rows()})
    assert set(caller.alive()) == {B}, "it refuses still"
    host.computing.experts[A] = expert
    assert set(caller.forward({A: rows()})) == {A}
    assert set(caller.alive()) == {A, B}
    assert caller.counts.silent == 0


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


def test_hosts_that_the_table_no_longer_names_are_not_called(hosts: SmallHosts):
    host = hosts.host([A])
    caller = hosts.caller(host)
    caller.forward({A: rows()})
    caller.use({})
    assert not caller.alive()
    assert caller.forward({A: rows()}) == {}
    wait_until(lambda: not host.service._streams, "end of the stream")


@pytest.mark.parametrize("number", [1e6, float("inf"), float("nan")])
def test_an_expert_that_has_diverged_costs_its_own_answer_and_not_its_host(hosts: SmallHosts, number: float):
    host = hosts.host([A, B])
    caller = hosts.caller(host)
    with torch.no_grad():
        host.computing.experts[A].network.out.bias.fill_(number)
    choice = Choice(torch.tensor([[A, B]] * 3), ())
    for _ in range(2):
        _, answered = call_experts(caller, rows(3), choice)
        assert answered.tolist() == [[False, True]] * 3
    assert set(caller.alive()) == {A, B}
    call_experts(caller, rows(3), choice)
    assert set(caller.alive()) == {B}
    assert caller.counts.silent == 0


def test_what_is_no_answer_costs_one_experts_answer_and_not_its_host(hosts: SmallHosts):
    host = hosts.host([A, B])
    caller = hosts.caller(host)
    compute = host.computing.compute

    def spoiled(calls: Sequence[Call]) -> list[Outcome]:
        return [Outcome(b"rows") if call.uid == A else one for call, one in zip(calls, compute(calls), strict=True)]

    host.computing.compute = spoiled  # type: ignore[method-assign]
    for _ in range(2):
        assert set(caller.forward({A: rows(), B: rows()})) == {B}
    assert set(caller.alive()) == {A, B}


def test_experts_of_other_settings_are_not_called(hosts: SmallHosts):
    host = hosts.host([A])
    caller = hosts.caller(host, settings=ExpertSettings(grid=(2, 2), width=8, hidden=32))
    assert caller.forward({A: rows()}) == {}
    assert not caller.alive()
    assert host.service.refused
