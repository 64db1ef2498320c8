"""Peers behind routers: what they tell of where they are, and whom they call when."""

import itertools

import pytest

from averaging.protocol.messages import Contact
from averaging.transport.calling_out import (
    FIRST_PAUSE,
    LONGEST_PAUSE,
    MOST_CALLED,
    Calls,
    Whereabouts,
    checked,
    one_of_each_user,
    whereabouts,
)

HOME, LATER_HOME = "/ip4/192.168.1.2/udp/4001/quic-v1", "/ip4/192.168.1.7/udp/4001/quic-v1"
OUTSIDE = "/ip4/45.10.1.3/udp/4001/quic-v1"
ELSEWHERE = "/ip4/45.10.1.9/udp/7000/quic-v1"
PEER = "12D3KooWGC6TvWhfapngX6wvJHMYvKpDMXPb3ZnCZ6dMoaMtimQ5"
HOLE = 30.0  # seconds for which a router keeps one, at least


def told(*said: str, visible: tuple[str, ...] = (HOME,)) -> Whereabouts:
    """By a peer to which others have said this, each one address."""
    return whereabouts(said, visible)


def test_a_peer_is_where_others_see_it_and_at_home():
    assert told(OUTSIDE) == Whereabouts((OUTSIDE,), (HOME,))


def test_until_somebody_has_seen_it_nobody_outside_is_told_anything():
    assert told() == Whereabouts((), (HOME,))


def test_many_peers_of_one_user_say_one_address_and_the_coordinator_is_heard_first():
    contacts = {f"liar.{number}": Contact(f"liar.{number}", "liar", reachable=True) for number in range(3)}
    contacts |= {"c.0": Contact("c.0", "coordinator", True, is_coordinator=True), "d.0": Contact("d.0", "d", False)}
    seen = dict.fromkeys(contacts, ELSEWHERE) | {"c.0": OUTSIDE, "gone.0": ELSEWHERE}
    assert one_of_each_user(seen, contacts) == [OUTSIDE, ELSEWHERE]


def test_what_most_have_seen_comes_first():
    assert told(ELSEWHERE, OUTSIDE, OUTSIDE).seen == (OUTSIDE, ELSEWHERE)


@pytest.mark.parametrize(
    "address",
    ["", "nonsense", "/ip4/45.10.1.3/tcp/4001", "/ip4/300.0.0.1/udp/1/quic-v1", "/dns4/example.org/udp/1/quic-v1"],
)
def test_what_is_no_address_of_quic_does_not_count(address: str):
    assert told(address) == Whereabouts((), (HOME,))


def test_of_an_address_only_host_and_port_are_told():
    assert told(f"{OUTSIDE}/p2p/{PEER}") == told(OUTSIDE)


def test_nobody_is_sent_into_a_home_by_an_address_that_is_none():
    public, own, tcp = "/ip4/8.8.8.8/udp/53/quic-v1", "/ip4/127.0.0.1/udp/1/quic-v1", "/ip4/192.168.1.1/tcp/80"
    assert checked([OUTSIDE, tcp], [public, own, tcp, HOME]) == Whereabouts((OUTSIDE,), (HOME,))


def test_an_address_that_the_router_has_opened_comes_before_what_others_see():
    opened = "/ip4/45.10.1.3/udp/5000/quic-v1"
    assert told(OUTSIDE, visible=(HOME, opened)) == Whereabouts((opened, OUTSIDE), (HOME,))


def test_addresses_of_this_machine_alone_are_not_told():
    assert told(visible=("/ip4/127.0.0.1/udp/1/quic-v1", "/ip6/::1/udp/1/quic-v1", "/ip4/127.0.0.1/tcp/1")).home == ()


def test_a_home_address_is_called_only_from_the_same_home():
    neighbour = Whereabouts(("/ip4/45.10.1.3/udp/9/quic-v1",), (LATER_HOME,))
    assert neighbour.from_there(told(OUTSIDE)) == (*neighbour.seen, LATER_HOME)
    assert neighbour.from_there(told(ELSEWHERE)) == neighbour.seen


def times(calls: Calls, until: float, begin: float = 0.0) -> list[float]:
    """When a silent peer is called, looked at every second."""
    seconds = [begin + second for second in range(int(until - begin))]
    return [now for now in seconds if calls.due({"bela": (OUTSIDE,)}, (), now)]


def test_a_peer_is_called_at_once_and_then_less_and_less_often():
    called = times(Calls(), 3600.0)
    pauses = [later - earlier for earlier, later in itertools.pairwise(called)]
    assert called[0] == 0.0 and pauses[0] == FIRST_PAUSE
    assert pauses == sorted(pauses) and pauses[-1] == LONGEST_PAUSE


@pytest.mark.parametrize("later", range(0, 21, 2))
def test_calls_of_two_that_hear_of_each_other_within_20_seconds_meet_in_the_middle(later: int):
    ours, theirs = times(Calls(), 60.0), times(Calls(), 60.0, begin=float(later))
    assert any(0.0 <= one - other < HOLE for one in theirs for other in ours)


def test_a_peer_whose_address_has_changed_is_called_at_once():
    calls = Calls()
    times(calls, 600.0)
    assert calls.due({"bela": (ELSEWHERE,)}, (), 600.0) == {"bela": (ELSEWHERE,)}


def test_one_that_is_connected_is_not_called_and_at_once_when_that_breaks():
    calls = Calls()
    times(calls, 600.0)
    assert not calls.due({"bela": (OUTSIDE,)}, {"bela"}, 600.0)
    assert calls.due({"bela": (OUTSIDE,)}, (), 601.0)


def test_one_without_an_address_is_not_called_unless_libp2p_finds_it():
    assert Calls().due({"asha": (), "bela": None}, (), 0.0) == {"bela": ()}


def test_in_a_large_swarm_nobody_is_called():
    assert not Calls().due({f"peer{number}": (OUTSIDE,) for number in range(MOST_CALLED + 1)}, (), 0.0)
