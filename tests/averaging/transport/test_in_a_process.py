"""As in a peer's process: a DHT node with its daemon, the loop in a thread, contacts and streams of a run."""

from functools import partial
from pathlib import Path

import pytest
from hivemind.p2p import P2P

from averaging.protocol.messages import Contact
from averaging.transport import contacts_in_dht
from averaging.transport.contacts_in_dht import Discovery
from averaging.transport.loop import LoopThread, join_daemon
from averaging.transport.pass_credentials import PassCredentials
from swarm.dht.node import Network, addresses, join_dht
from swarm.identity import load_identity
from tests.averaging.transport.peers import RUN, Guarded, Peer, chunk_of
from tests.support.forked import runs_well
from tests.support.waiting import wait_until

PAYLOAD = bytes(2**18)


@pytest.mark.swarm
def test_peers_find_and_hear_each_other_also_one_that_accepts_no_connections(tmp_path: Path):
    runs_well(tell_each_other, tmp_path)


def tell_each_other(folder: Path) -> None:
    """Two peers in one process; the second one is in client mode."""
    contacts_in_dht.LOOK_EVERY = 0.5
    guarded = Guarded(folder)
    nodes = []
    known: list[str] = []
    for name in ("amina", "bimal"):
        identity = load_identity(folder / f"{name}.key")
        gate = guarded.gate(name, identity.peer_id)
        network = Network(known, listen=("/ip4/127.0.0.1/tcp/0",), client_mode=name == "bimal")
        nodes.append((join_dht("guarded-run", identity, network, gate), identity, gate))
        known = known or addresses(nodes[0][0])
    loop = LoopThread()
    peers: list[Peer] = []
    listed: dict[str, dict[str, Contact]] = {}
    all_contacts = []
    for number, (dht, identity, gate) in enumerate(nodes, 1):
        p2p: P2P = loop.call(join_daemon(dht))
        peer = loop.call(Peer(loop, p2p, number, gate, RUN).start())
        me = PassCredentials(identity, gate).introduced(Contact(peer.session, gate.own.user, number == 1))
        contacts = Discovery(dht, "guarded-run", identity, me, gate)
        loop.begin(contacts.keep(partial(listed.__setitem__, peer.session)))
        peers.append(peer)
        all_contacts.append(contacts)
    amina, bimal = peers
    wait_until(lambda: bimal.session in listed.get(amina.session, {}), "bimal among amina's contacts")
    wait_until(lambda: amina.session in listed.get(bimal.session, {}), "amina among bimal's contacts")
    assert not listed[amina.session][bimal.session].reachable
    bimal.tells(amina)
    amina.tells(bimal)
    amina.tells(bimal, chunk_of(PAYLOAD), PAYLOAD)
    assert loop.call(amina.transport.flush(100.0))
    for peer, contacts in zip(peers, all_contacts, strict=True):
        loop.call(contacts.withdraw())
        loop.call(peer.transport.stop())
        loop.call(peer.p2p.shutdown())
    assert loop.stop()
    for dht, _, _ in reversed(nodes):
        dht.shutdown()
