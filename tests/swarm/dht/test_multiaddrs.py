"""Addresses that others tell: which of them are worth passing on."""

import pytest
from hivemind.p2p import PeerID
from hivemind.utils.multiaddr import Multiaddr

from swarm.dht.multiaddrs import is_address, is_loopback, leads_to, printed, quic_beside, quic_host

PEER = PeerID(b"\x12\x20" + bytes(32))
OTHER = PeerID(b"\x12\x20" + bytes(31) + b"\x01")


@pytest.mark.parametrize("host", ["/ip4/1.2.3.4", "/ip6/2001:db8::1", "/dns4/run.example.org", "/ip4/127.0.0.1"])
def test_a_host_a_port_and_the_peers_own_id_lead_to_it(host: str):
    assert leads_to(f"{host}/tcp/31337/p2p/{PEER}", PEER)
    assert not leads_to(f"{host}/tcp/31337/p2p/{OTHER}", PEER)


@pytest.mark.parametrize(
    "address",
    [
        "",
        "/x",
        f"/x/p2p/{PEER}",
        f"/ip4/1.2.3.4/p2p/{PEER}",
        f"/ip4/1.2.3.4/tcp/99999/p2p/{PEER}",
        f"/ip4/1.2.3.4/tcp/1/p2p/{OTHER}/p2p-circuit/p2p/{PEER}",
        f"/ip4/1.2.3.4/tcp/1/p2p/{OTHER}/p2p/{PEER}",
        "/ip4/1.2.3.4/tcp/1",
    ],
)
def test_nothing_else_does(address: str):
    assert not leads_to(address, PEER)


def test_what_is_no_multiaddr_is_told_apart():
    assert is_address(f"/ip4/1.2.3.4/tcp/1/p2p/{PEER}")
    assert not is_address(f"/x/p2p/{PEER}")


def test_an_address_of_this_machine_is_no_use_to_others():
    assert is_loopback("/ip4/127.0.0.1/tcp/1") and is_loopback("/ip6/::1/tcp/1")
    assert not is_loopback("/ip4/12.7.0.1/tcp/1")


@pytest.mark.parametrize("peer", ["", f"/p2p/{PEER}"])
def test_quic_has_the_number_of_the_tcp_port(peer: str):
    beside = quic_beside(f"/dns4/run.example.org/tcp/31337{peer}")
    assert beside == f"/dns4/run.example.org/udp/31337/quic-v1{peer}"
    assert is_address(beside) and quic_host(beside) == "run.example.org"


@pytest.mark.parametrize(
    "address",
    [
        "",
        "/ip4/1.2.3.4",
        "/ip4/1.2.3.4/tcp/0",
        "/ip4/1.2.3.4/udp/1/quic-v1",
        f"/ip4/1.2.3.4/tcp/1/p2p/{OTHER}/p2p-circuit/p2p/{PEER}",
    ],
)
def test_there_is_none_beside_others(address: str):
    assert quic_beside(address) is None


@pytest.mark.parametrize("address", ["", "/ip4/1.2.3.4/tcp/1", "/ip4/1.2.3.4/udp/1", "/ip4/1.2.3/udp/1/quic-v1"])
def test_what_is_no_address_of_quic_has_no_host(address: str):
    assert quic_host(address) is None


def test_an_address_of_a_protocol_that_hivemind_does_not_know_hides_no_other() -> None:
    good = Multiaddr("/ip4/127.0.0.1/udp/400/quic")
    assert printed([Multiaddr(good.to_bytes() + b"\x03"), good]) == [str(good)]
