"""Callers that are not heard, and floods: refused, nothing changes, and others are served."""

import threading

import pytest
from hivemind.p2p import PeerID

from experts.codec import encode
from experts.host.state import to_bytes
from experts.remote import wire
from experts.remote.wire import Answer, Kind, Part, Request
from swarm.access import refusals
from swarm.access.greeting import LONGEST_HELLO
from swarm.access.refusals import MOST_REFUSALS
from tests.experts.remote.small_hosts import ALL, RUN, Host, SmallHosts, rows
from tests.support.waiting import wait_until

pytestmark = pytest.mark.swarm

A = ALL[0]
GOOD = encode(rows(3))


def request(*parts: Part, kind: Kind = Kind.FORWARD, payload: bytes = GOOD) -> bytes:
    return wire.message(Request(1, kind, parts), payload)


def states(host: Host) -> dict[tuple[int, ...], bytes]:
    return {uid: to_bytes(expert) for uid, expert in host.computing.experts.items()}


def test_without_a_good_pass_nobody_is_heard(hosts: SmallHosts):
    host, amina = hosts.host(), hosts.caller(name="amina")
    before = states(host)
    intruder = hosts.intruder()
    stolen = amina._greeting.hello().shown
    hellos = [
        intruder.hello(),
        intruder.hello(shown=b"pass"),
        intruder.hello(shown=stolen),
        intruder.hello(shown=stolen, version=wire.VERSION + 1),
        intruder.hello(shown=stolen, run="another"),
        intruder.hello(shown=stolen, run=f"{RUN} with experts {'0' * 16}"),
        intruder.hello(shown=bytes(LONGEST_HELLO)),
        b"\xff" * 100,
        b"GET / HTTP/1.1\r\n\r\n",
    ]
    for hello in hellos:
        answered = intruder.says(host, hello, request(Part(A, 3)), request(Part(A), kind=Kind.STATE, payload=b""))
        assert answered == b"", hello
    assert host.service.refused == len(hellos)
    assert states(host) == before
    assert host.computing.rows == 0


@pytest.mark.parametrize(
    "bad",
    [
        pytest.param(request(Part(A, 2)), id="fewer rows than bytes"),
        pytest.param(request(Part(A, 4)), id="more rows than bytes"),
        pytest.param(request(Part(A, 3), kind=Kind.BACKWARD), id="no gradients"),
        pytest.param(request(Part(A, -3)), id="negative"),
        pytest.param(request(Part(A, 2**40)), id="endless"),
        pytest.param(request(*[Part(A, 1)] * 3, payload=encode(rows(3))), id="one expert thrice"),
        pytest.param(b"\xff\xff\xff\xff\xff\xff\xff\xff", id="announces gigabytes"),
        pytest.param(wire.message([1, "no such kind", []]), id="another kind"),
    ],
)
def test_a_request_that_no_caller_of_ours_makes_ends_the_stream(hosts: SmallHosts, bad: bytes):
    host = hosts.host()
    before = states(host)
    eve = hosts.intruder()
    eve.gate = hosts.guarded.gate("eve", eve.p2p.peer_id)
    answered = eve.says(host, eve.hello(), bad)
    assert answered == wire.message(host.service._greeting.hello())
    assert host.service.refused == 1
    assert states(host) == before


def test_a_pass_that_has_expired_or_a_ban_ends_a_stream_that_was_good(hosts: SmallHosts):
    host = hosts.host()
    banned, other = hosts.caller(host, name="eve"), hosts.caller(host, name="amina")
    assert set(banned.forward({A: rows()})) == {A}
    hosts.guarded.ban("eve")
    assert banned.forward({A: rows()}) == {}
    assert set(other.forward({A: rows()})) == {A}


def test_a_peer_that_is_refused_again_and_again_is_not_read_any_more(hosts: SmallHosts):
    host = hosts.host()
    intruder = hosts.intruder()
    for _ in range(MOST_REFUSALS + 3):
        assert intruder.says(host, intruder.hello()) == b""
    assert host.service.refused == MOST_REFUSALS


def test_a_peer_has_few_streams_without_a_hello_and_others_are_served(hosts: SmallHosts):
    host, amina = hosts.host(strangers_of_a_peer=2, hello=1e6), hosts.caller(name="amina")
    amina.use({A: host.p2p.peer_id})
    eve = hosts.intruder()
    eve.gate = hosts.guarded.gate("eve", eve.p2p.peer_id)
    for _ in range(2):
        eve.begins(host)
    assert eve.says(host, eve.hello()) == b""
    assert host.service.refused == 1
    assert refusals._refusals._seen.keys() == {eve.p2p.peer_id.to_base58()}
    assert set(amina.forward({A: rows()})) == {A}


def test_a_hello_that_never_comes_is_a_refusal(hosts: SmallHosts):
    host, eve = hosts.host(hello=0.2), hosts.intruder()
    assert eve.says(host, b"\0") == b""
    assert host.service.refused == 1
    assert refusals._refusals._seen.keys() == {eve.p2p.peer_id.to_base58()}
    assert not host.service._strangers.peers


def test_a_request_that_begins_and_never_arrives_is_a_refusal(hosts: SmallHosts):
    host, eve, amina = hosts.host(arrive=0.2, receiving=1), hosts.intruder(), hosts.caller(name="amina")
    eve.gate = hosts.guarded.gate("eve", eve.p2p.peer_id)
    amina.use({A: host.p2p.peer_id})
    assert eve.says(host, eve.hello(), request(Part(A, 3))[:9]) != b"", "the host has said hello"
    assert refusals._refusals._seen.keys() == {eve.p2p.peer_id.to_base58()}
    assert set(amina.forward({A: rows()})) == {A}


def test_silent_streams_keep_no_newcomer_out(hosts: SmallHosts):
    host, eve, other = hosts.host(strangers=2, hello=1e6), hosts.intruder(), hosts.intruder()
    expected: list[PeerID] = []
    for intruder in (eve, other, eve, other):
        intruder.begins(host)
        expected[:] = [*expected, intruder.p2p.peer_id][-2:]
        wait_until(lambda: list(host.service._strangers.peers.values()) == expected, "the end of the oldest stream")
    assert set(hosts.caller(host, name="amina").forward({A: rows()})) == {A}
    assert list(host.service._strangers.peers.values()) == [other.p2p.peer_id]
    assert host.service.refused == 0
    assert not refusals._refusals._seen


def test_a_peer_for_which_there_is_no_room_is_not_to_blame(hosts: SmallHosts):
    host, amina = hosts.host(streams=0), hosts.intruder()
    amina.gate = hosts.guarded.gate("amina", amina.p2p.peer_id)
    assert amina.says(host, amina.hello()) == b""
    assert host.service.refused == 1
    assert not refusals._refusals._seen


def test_a_user_has_few_streams(hosts: SmallHosts):
    host = hosts.host(streams_of_a_user=2)
    callers = [hosts.caller(host, name=f"eve{number}") for number in range(3)]
    own = [hosts.guarded.authority.issue("guarded-run", "eve", caller._p2p.peer_id, 3600.0) for caller in callers]
    for caller, shown in zip(callers, own, strict=True):
        caller._greeting._gate.renew(shown)
    answered = [bool(caller.forward({A: rows()})) for caller in callers]
    assert answered == [True, True, False]


def test_a_flood_is_refused_and_others_are_served(hosts: SmallHosts):
    """The flood has more work waiting than the host takes; every call of the other caller is answered."""
    host = hosts.host(longest_queue=0.5)
    flood = [hosts.caller(host, name=f"flood{number}") for number in range(2)]
    for caller in flood:
        own = hosts.guarded.authority.issue("guarded-run", "eve", caller._p2p.peer_id, 3600.0)
        caller._greeting._gate.renew(own)
    amina = hosts.caller(host, name="amina")
    assert set(amina.forward({A: rows()})) == {A}
    ended = threading.Event()
    compute = host.computing.compute
    host.worker.queue.computed = lambda batch, seconds: None  # type: ignore[method-assign]
    host.worker.queue.speed = 2000.0  # however fast this machine is: half a second are a thousand rows
    host.computing.compute = lambda calls: (ended.wait(0.02), compute(calls))[1]  # type: ignore[method-assign]

    def call_on(caller: object) -> None:
        while not ended.is_set():
            caller.forward({uid: rows(400) for uid in ALL})  # type: ignore[attr-defined]

    threads = [threading.Thread(target=call_on, args=(caller,)) for caller in flood for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        wait_until(lambda: any(one.counts.asked > one.counts.answered + 8 for one in flood), "refused calls")
        for seed in range(10):
            inputs = {uid: rows(5, seed) for uid in ALL}
            assert set(amina.forward(inputs)) == set(ALL)
            assert set(amina.backward(inputs, inputs)) == set(ALL)
    finally:
        ended.set()
        for thread in threads:
            thread.join()
    assert host.versions == dict.fromkeys(ALL, 10)


def test_states_are_given_a_few_times_a_minute(hosts: SmallHosts):
    host = hosts.host(states_a_minute=2)
    caller = hosts.caller(host)
    caller.forward({A: rows()})
    connection = caller._hosts[host.p2p.peer_id.to_base58()].connection
    asked = (Part(A),)

    def state() -> bytes:
        answer, payload = hosts.loop.call(connection.ask(Kind.STATE, asked))
        assert isinstance(answer, Answer)
        return dict(wire.split(answer, payload, asked)).get(A, (None, b""))[1]

    assert [state() == to_bytes(host.computing.experts[A]) for _ in range(3)] == [True, True, False]
