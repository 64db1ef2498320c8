"""A member with a pass that lies over real libp2p, to a peer that checks with real keys."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from averaging.log.chain import Chain
from averaging.log.header import Ballot, Certificate, Entry, Farewell, Header, HeaderKind, Reset, SnapshotName
from averaging.protocol import credentials as signed
from averaging.protocol import peer as protocol
from averaging.protocol.messages import Commit, Contact, Goodbye, Message, Report
from averaging.protocol.settings import Settings
from averaging.transport.pass_credentials import PassCredentials
from swarm.access.user_names import COORDINATOR
from swarm.identity import load_identity
from tests.averaging.transport.peers import RUN, Guarded, Peer, Peers
from tests.support.waiting import wait_until

pytestmark = pytest.mark.swarm


def test_what_a_member_forges_is_not_believed_and_what_members_sign_is(peers: Peers, tmp_path: Path):
    guarded = Guarded(tmp_path)
    names = ("amina", "bimal", COORDINATOR)
    them: dict[str, tuple[Peer, PassCredentials, Contact]] = {}
    for name in names:
        identity = load_identity(tmp_path / f"{name}.key")
        gate = guarded.gate(name, identity.peer_id)
        peer = peers.start(p2p=peers.daemon(identity.path), gate=gate)
        is_coordinator = name == COORDINATOR
        credentials = PassCredentials(identity, gate, guarded.authority if is_coordinator else None)
        me = credentials.introduced(Contact(peer.session, name, reachable=True, is_coordinator=is_coordinator))
        them[name] = peer, credentials, me
    (liar, hers, _), (victim, his, him) = them["amina"], them["bimal"]
    coordinator, authority, _ = them[COORDINATOR]

    ballot = Ballot(0, coordinator.session)
    voters = tuple(sorted((liar.session, victim.session)))
    first = SnapshotName(0, "0" * 64)
    genesis = Header(RUN, 0, HeaderKind.GENESIS, "", ballot, (), (), (), voters, coordinator.session, first)
    machine = protocol.LogPeer(him, Settings(RUN, 100, 0, 5), his, 0.0, held=[first.digest])
    machine.start(Chain([Entry(genesis, Certificate(ballot))]), [first])
    machine.contacts([contact for _, _, contact in them.values()], 0.0)
    heard = []

    def takes_in(session: str, message: Message, payload: bytes | None) -> None:
        machine.receive(session, message, 1.0)
        heard.append(message)

    victim.transport._deliver = takes_in

    def tells(sender: Peer, message: Message) -> None:
        def arrived() -> bool:
            if message not in heard:
                sender.send(victim, message)
            return message in heard

        wait_until(arrived, f"{type(message).__name__} of {sender.session}", every=0.2)

    tells(liar, Report(genesis.head, 7))  # what she may say is taken in
    header = Header(
        RUN, 1, HeaderKind.UPDATE, genesis.digest, Ballot(1, liar.session), (), (), (), voters, ballot.convener
    )
    content = {one: signed.vote(one, genesis.digest, header.ballot, header.digest) for one in voters}
    forged = Certificate(header.ballot, voters, signatures=tuple(hers.sign(content[one]) for one in voters))
    at = replace(header, kind=HeaderKind.RESET, resets=(Reset(1, header.ballot),))
    said = Farewell(coordinator.session, genesis.digest, 0, None)
    for lie in (
        Commit(Entry(header, forged)),
        Commit(Entry(header, replace(forged, signatures=(b"", b"")))),
        Commit(Entry(replace(at, order=hers.sign(signed.order(at))), Certificate(header.ballot))),
        Goodbye(signed.signed_farewell(said, hers), None),
        Goodbye(signed.signed_farewell(said, authority), None),  # hers to tell it is not
    ):
        tells(liar, lie)
        assert machine.head == genesis.head
        assert not machine._contacts.goodbyes

    both = {liar.session: hers, victim.session: his}
    real = Certificate(header.ballot, voters, signatures=tuple(both[one].sign(content[one]) for one in voters))
    tells(liar, Commit(Entry(header, real)))
    assert machine.head == header.head
    at = replace(at, step=2, previous=header.digest, resets=(Reset(2, Ballot(9, coordinator.session)),))
    reset = signed.ordered(at, authority)
    tells(liar, Commit(Entry(reset, Certificate(at.ballot))))  # whoever passes it on
    assert machine.head == reset.head
    tells(coordinator, Goodbye(signed.signed_farewell(said, authority), None))
    assert list(machine._contacts.goodbyes) == [coordinator.session]
