"""Who is listed: on whose word, for how long, and which of two sessions."""

import asyncio
import math
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock, Mock

import pytest
from hivemind.dht import DHT, DHTNode
from msgspec.structs import replace

from averaging.bandwidth import NO_CAPS
from averaging.protocol.messages import Contact
from averaging.shell.connection import Connection
from averaging.transport import contacts_in_dht
from averaging.transport.calling_out import Whereabouts
from averaging.transport.contacts_in_dht import LONGEST, LOOK_AGAIN, LOOK_EVERY, TELL_EVERY, Discovery, Listing
from averaging.transport.pass_credentials import PassCredentials
from swarm.access.gate import Gate
from swarm.access.user_names import COORDINATOR
from swarm.dht.node import Network, addresses, join_dht
from swarm.dht.records import ContactRecord
from swarm.identity import Identity, load_identity
from swarm.tasks import within
from tests.averaging.transport.peers import Guarded
from tests.support.forked import runs_well
from tests.support.waiting import wait_until


@pytest.fixture(scope="module")
def amina(tmp_path_factory: pytest.TempPathFactory) -> Identity:
    return load_identity(tmp_path_factory.mktemp("amina") / "identity.key")


@pytest.fixture(scope="module")
def bimal(tmp_path_factory: pytest.TempPathFactory) -> Identity:
    return load_identity(tmp_path_factory.mktemp("bimal") / "identity.key")


class Proven:
    """A peer with a pass: its contacts and records, by number of the session."""

    def __init__(self, identity: Identity, gate: Gate):
        self.peer_id, self.shown, self._credentials = identity.peer_id, gate.own, PassCredentials(identity, gate)

    def contact(self, number: int = 1, **changes: Any) -> Contact:
        """With what makes others believe it."""
        plain = Contact(f"{self.peer_id.to_base58()}.{number:08x}", self.shown.user, True)
        return self._credentials.introduced(replace(plain, **changes))

    def record(self, number: int = 1, **changes: Any) -> ContactRecord:
        """That it stores in the DHT."""
        contact = self.contact(number)
        plain: dict[str, Any] = {
            "session": contact.session,
            "shown_pass": self.shown.to_bytes(),
            "reachable": True,
            "is_coordinator": False,
            "left": False,
            "proof": contact.proof,
        }
        return ContactRecord(**plain | changes)


@pytest.fixture
def guarded(tmp_path: Path) -> Guarded:
    return Guarded(tmp_path)


def test_the_newest_session_of_a_peer_counts(amina: Identity, bimal: Identity, guarded: Guarded):
    one = Proven(amina, guarded.gate("amina", amina.peer_id))
    listing = Listing(guarded.gate("bimal", bimal.peer_id), "")
    listing.take([(one.peer_id, one.record(2), 20.0), (one.peer_id, one.record(1), 10.0)])
    listing.take([(one.peer_id, one.record(1), 11.0)])
    assert list(listing.contacts(0.0)) == [one.contact(2).session]


def test_a_session_is_listed_until_it_withdraws_or_its_record_expires(
    amina: Identity, bimal: Identity, guarded: Guarded
):
    first, second = (Proven(one, guarded.gate(f"{one.peer_id}", one.peer_id)) for one in (amina, bimal))
    listing = Listing(guarded.gate("chandra", amina.peer_id), "")
    listing.take([(one.peer_id, one.record(), 10.0) for one in (first, second)])
    listing.take([])
    assert len(listing.contacts(9.9)) == 2
    listing.take([(first.peer_id, first.record(left=True), 12.0)])
    assert list(listing.contacts(9.9)) == [second.contact().session]
    assert not listing.contacts(10.0)


def test_nobody_is_listed_under_anothers_session_nor_beside_itself(amina: Identity, bimal: Identity, guarded: Guarded):
    first, second = (Proven(one, guarded.gate(f"{one.peer_id}", one.peer_id)) for one in (amina, bimal))
    listing = Listing(guarded.gate("chandra", amina.peer_id), first.contact().session)
    listing.take([(second.peer_id, first.record(7), 10.0), (first.peer_id, first.record(), 10.0)])
    assert not listing.contacts(0.0)


@pytest.mark.parametrize("session", ["amina.00000001", "Qm.00000001", "x" * 1000, ""])
def test_a_record_names_a_session(session: str):
    with pytest.raises(ValueError):
        ContactRecord(session=session, shown_pass=b"", reachable=True, is_coordinator=False, left=False)


def test_the_pass_says_who_it_is(amina: Identity, bimal: Identity, guarded: Guarded):
    one = Proven(amina, guarded.gate("amina", amina.peer_id))
    listing, its = Listing(guarded.gate("bimal", bimal.peer_id), ""), one.contact()
    listing.take([(one.peer_id, one.record(is_coordinator=True, proof=its.proof), 10.0)])
    listing.take([(bimal.peer_id, one.record(), 10.0)])  # with a pass that is not its own
    assert listing.contacts(0.0) == {its.session: its}
    guarded.ban("amina")
    assert not listing.contacts(0.0)


def test_the_coordinator_is_who_has_its_pass(amina: Identity, bimal: Identity, guarded: Guarded):
    one = Proven(bimal, guarded.gate(COORDINATOR, bimal.peer_id))
    listing, its = Listing(guarded.gate("amina", amina.peer_id), ""), one.contact(is_coordinator=True)
    listing.take([(one.peer_id, one.record(is_coordinator=True, proof=its.proof), 10.0)])
    assert listing.contacts(0.0) == {its.session: its}


def test_who_has_no_proof_for_others_is_not_listed(amina: Identity, bimal: Identity, guarded: Guarded):
    one, gate = Proven(amina, guarded.gate("amina", amina.peer_id)), guarded.gate("bimal", bimal.peer_id)
    for proof in (b"", b"x" * 600, one.contact(reachable=False).proof):
        listing = Listing(gate, "")
        listing.take([(one.peer_id, one.record(proof=proof), 10.0)])
        assert not listing.contacts(0.0)


async def test_a_session_that_connects_is_looked_for_at_once_and_a_stranger_once_a_second(
    amina: Identity, monkeypatch: pytest.MonkeyPatch
):
    ann = Contact("ann.0", "ann", reachable=True)
    listed: dict[str, Contact] = {}
    looks: list[float] = []
    heard: list[float] = []  # when ann was
    loop = asyncio.get_running_loop()
    discovery = Discovery(Mock(), "run", amina, ann, Mock())

    async def look() -> dict[str, Contact]:
        looks.append(loop.time())
        return dict(listed)

    def hear(found: dict[str, Contact]) -> None:
        heard.extend([loop.time()] if found else [])

    monkeypatch.setattr(discovery, "tell", AsyncMock())
    monkeypatch.setattr(discovery, "look", look)
    keeping = loop.create_task(discovery.keep(hear))
    await asyncio.sleep(2 * LOOK_EVERY + 3.0)
    assert len(looks) == 3
    listed[ann.session] = ann
    discovery.connected(ann.session)
    await asyncio.sleep(0.1)
    assert heard == [2 * LOOK_EVERY + 3.0]
    discovery.connected(ann.session)  # who is known needs no look
    before = len(looks)
    for _ in range(40):
        await asyncio.sleep(0.1)
        discovery.connected("stranger.0")
    assert len(looks) - before <= 4.1 / LOOK_AGAIN
    keeping.cancel()


@pytest.mark.parametrize(("others", "pause"), [(4, 10.0), (30, LONGEST)])
async def test_a_peer_of_many_looks_rarely_and_tells_of_itself_as_often(
    others: int, pause: float, amina: Identity, monkeypatch: pytest.MonkeyPatch
):
    loop = asyncio.get_running_loop()
    me = Contact("me.0", "me", reachable=True)
    listed = {one: Contact(one, one, reachable=True) for one in map(str, range(others))}
    discovery, looks = Discovery(Mock(), "run", amina, me, Mock()), list[float]()

    async def look() -> dict[str, Contact]:
        looks.append(loop.time())
        return dict(listed)

    telling, hear = AsyncMock(), Mock()
    monkeypatch.setattr(discovery, "tell", telling)
    monkeypatch.setattr(discovery, "look", look)
    monkeypatch.setattr(contacts_in_dht.clock, "now", loop.time)
    keeping = loop.create_task(discovery.keep(hear))
    await asyncio.sleep(LOOK_EVERY + 2.5 * pause)
    assert looks == [0.0, LOOK_EVERY, LOOK_EVERY + pause, LOOK_EVERY + 2 * pause]  # all were new at first
    assert telling.await_count == math.ceil((LOOK_EVERY + 2.5 * pause) / TELL_EVERY)
    assert hear.call_count == math.ceil((LOOK_EVERY + 2.5 * pause) / LOOK_EVERY)  # with who is on probation
    keeping.cancel()


async def test_a_session_that_has_connected_is_looked_for_until_it_is_listed(
    amina: Identity, monkeypatch: pytest.MonkeyPatch
):
    loop = asyncio.get_running_loop()
    ann = Contact("ann.0", "ann", reachable=True)
    listed = {one: Contact(one, one, reachable=True) for one in map(str, range(30))}
    answers: list[Any] = [listed, listed, OSError(), listed | {ann.session: ann}]
    looks = AsyncMock(side_effect=answers)
    discovery = Discovery(Mock(), "run", amina, Mock(), Mock())
    monkeypatch.setattr(discovery, "tell", AsyncMock())
    monkeypatch.setattr(discovery, "look", looks)
    monkeypatch.setattr(contacts_in_dht.clock, "now", loop.time)
    keeping = loop.create_task(discovery.keep(Mock()))
    await asyncio.sleep(1.5)
    discovery.connected(ann.session)
    await asyncio.sleep(2 * LOOK_EVERY + 0.5)
    assert looks.await_count == len(answers)
    assert ann.session in discovery.listed
    await asyncio.sleep(2 * LOOK_EVERY)
    assert looks.await_count == len(answers)
    keeping.cancel()


async def test_an_error_in_what_hears_of_contacts_is_not_taken_for_one_of_the_dht(
    amina: Identity, monkeypatch: pytest.MonkeyPatch
):
    discovery = Discovery(Mock(), "run", amina, Mock(), Mock())
    monkeypatch.setattr(discovery, "tell", AsyncMock(side_effect=OSError))
    monkeypatch.setattr(discovery, "look", AsyncMock(side_effect=[OSError, {}]))
    with pytest.raises(AssertionError, match="of the machine"):
        async with within(60.0):
            await discovery.keep(Mock(side_effect=AssertionError("of the machine")))


async def test_no_record_is_stored_after_the_one_that_withdraws_a_session(
    amina: Identity, monkeypatch: pytest.MonkeyPatch
):
    connection, stored = Connection(Mock(caps=NO_CAPS)), list[str]()
    discovery = connection._discovery = Discovery(Mock(), "run", amina, Mock(), Mock())

    async def withdraw() -> None:
        discovery.is_at(Whereabouts(("elsewhere",)))
        await asyncio.sleep(2.0)
        stored.append("withdrawn")

    async def tell() -> None:
        stored.append("there")

    monkeypatch.setattr(discovery, "tell", tell)
    monkeypatch.setattr(discovery, "look", AsyncMock(return_value={}))
    monkeypatch.setattr(discovery, "withdraw", withdraw)
    connection._tasks.begin(discovery.keep(Mock()))
    await asyncio.sleep(LOOK_AGAIN)
    await connection.leave()
    assert stored == ["there", "withdrawn"]


@pytest.mark.swarm
def test_sessions_find_each_other_and_see_each_other_go(tmp_path: Path):
    runs_well(meet_and_part, tmp_path)


def meet_and_part(folder: Path) -> None:
    """Two peers of a run with a DHT node each, one of them in client mode, so that it stores nothing for others."""
    guarded = Guarded(folder)
    nodes, contacts = [], []
    known: list[str] = []
    for name in ("amina", "bimal"):
        identity = load_identity(folder / f"{name}.key")
        gate = guarded.gate(name, identity.peer_id)
        network = Network(known, client_mode=name != "amina", listen=("/ip4/127.0.0.1/tcp/0",))
        node = join_dht("guarded-run", identity, network, gate)
        known = known or addresses(node)
        named = Contact(f"{identity.peer_id.to_base58()}.00000001", name, name == "amina")
        me = PassCredentials(identity, gate).introduced(named)
        nodes.append(node)
        contacts.append(Discovery(node, "guarded-run", identity, me, gate))
    amina, bimal = contacts

    def others(one: Discovery) -> list[str]:
        return [contact.user for contact in asyncio.run(one.look()).values()]

    wait_until(lambda: asyncio.run(amina.tell()) and others(bimal) == ["amina"], "amina at bimal's", every=0.5)
    wait_until(lambda: asyncio.run(bimal.tell()) and others(amina) == ["bimal"], "bimal at amina's", every=0.5)
    (listed,) = asyncio.run(bimal.look()).values()
    assert listed.reachable and not listed.is_coordinator
    asyncio.run(bimal.tell())
    assert [node.run_coroutine(cached) for node in nodes] == [0, 0]  # or each record would have a node look once more
    asyncio.run(amina.withdraw(60.0))
    wait_until(lambda: not others(bimal), "end of amina's record", every=0.5)
    for node in reversed(nodes):
        node.shutdown()


async def cached(_: DHT, node: DHTNode) -> int:
    """How many keys of others a node keeps that it was not asked to store."""
    return len(node.protocol.cache)
