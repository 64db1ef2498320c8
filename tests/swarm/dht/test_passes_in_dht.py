"""Calls of the DHT, over real libp2p: a pass is good for the peer that it was given to, on both sides."""

import asyncio
import dataclasses
import math
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from hivemind.dht.routing import DHTID
from hivemind.dht.storage import DictionaryDHTValue
from hivemind.dht.validation import DHTRecord
from hivemind.p2p import P2P
from hivemind.p2p.p2p_daemon_bindings.control import ControlClient
from hivemind.utils import MSGPackSerializer, get_dht_time
from hivemind.utils.auth import AuthRole, AuthRPCWrapper

from swarm.access.gate import Gate
from swarm.access.notices import LONGEST, Notices, notices_key, sign_notices
from swarm.access.passes import Authority, load_authority
from swarm.access.user_names import COORDINATOR
from swarm.dht.passes_in_dht import LONGEST_LIFE, LONGEST_VALUE, PassAuthorizer, PassValidator
from swarm.hivemind_patches.blocked_callers import block_refused_callers
from swarm.hivemind_patches.dht_protocol import PassProtocol
from swarm.identity import Identity, load_identity

RUN = "small-run"
AN_HOUR = 3600.0
CONTENT = {"step": 3}


class Peers:
    """Nodes that run in this process, each with a libp2p daemon of its own."""

    def __init__(self, folder: Path):
        self._folder = folder
        self._daemons: list[P2P] = []
        self.authority = load_authority(folder / "authority.key")

    async def start(
        self, name: str, given_by: Authority | None = None, lifetime: float = AN_HOUR, shown_by: "Node | None" = None
    ) -> "Node":
        """A node with a pass of its own from some authority, or with the one that another node shows."""
        folder = self._folder / name
        folder.mkdir()
        identity = load_identity(folder / "identity.key")
        first = [str(one) for one in await self._daemons[0].get_visible_maddrs()] if self._daemons else None
        daemon = await P2P.create(
            initial_peers=first, identity_path=str(identity.path), host_maddrs=["/ip4/127.0.0.1/tcp/0"]
        )
        self._daemons.append(daemon)
        own = (given_by or self.authority).issue(RUN, name, identity.peer_id, lifetime)
        shown = shown_by.gate.own if shown_by else own
        notices = sign_notices(Notices(time=time.time(), pass_time=time.time()), self.authority, RUN)
        gate = Gate(folder, RUN, self.authority.public_key, shown, notices)
        protocol = await PassProtocol.create(
            daemon, DHTID.generate(), 20, 5, 5, 10.0, client_mode=True, authorizer=PassAuthorizer(gate)
        )
        await protocol.add_p2p_handlers(daemon, AuthRPCWrapper(protocol, AuthRole.SERVICER, protocol.authorizer))
        return Node(gate, protocol)

    async def stop(self) -> None:
        """End the daemons."""
        for daemon in self._daemons:
            await daemon.shutdown()


class Node:
    """One of them."""

    def __init__(self, gate: Gate, protocol: PassProtocol):
        self.gate, self.protocol = gate, protocol

    async def hears(self, other: "Node") -> bool:
        """Whether a call of this node's is answered by the other one, and the answer is taken."""
        found = await self.protocol.call_find(other.protocol.p2p.peer_id, [DHTID.generate()])
        return found is not None

    def shows(self, shown: bytes) -> None:
        """From now on this node shows these bytes, and believes everybody."""
        self.protocol.authorizer._gate = SimpleNamespace(
            own=SimpleNamespace(to_bytes=lambda: shown), admit=lambda peer_id, shown: None
        )


@pytest.fixture
def together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[Peers], Awaitable[None]]], None]:
    """Run a story of several nodes, and leave none behind."""
    for name in ("add_unary_handler", "stream_handler"):
        monkeypatch.setattr(ControlClient, name, getattr(ControlClient, name))  # put back afterwards
    block_refused_callers()

    def run(story: Callable[[Peers], Awaitable[None]]) -> None:
        async def whole() -> None:
            peers = Peers(tmp_path)
            try:
                await story(peers)
            finally:
                await peers.stop()

        asyncio.run(whole())

    return run


def test_an_answer_lives_no_longer_than_its_records(together: Callable[..., None]):
    """Else one that says to live for ever would hide what others know of the key, and be passed on."""

    async def story(peers: Peers) -> None:
        alice, bob = await peers.start("alice"), await peers.start("bob")
        empty, lying, soon = DHTID.generate(), DHTID.generate(), get_dht_time() + 60
        bob.protocol.storage.store(empty, DictionaryDHTValue(), math.inf)
        told = DictionaryDHTValue(maxsize=7)
        told.store(b"subkey", b"value", soon)
        told.latest_expiration_time = math.inf
        bob.protocol.storage.store(lying, told, math.inf)
        answers = await alice.protocol.call_find(bob.protocol.p2p.peer_id, [empty, lying])
        assert answers is not None and answers[empty][0] is None
        found = answers[lying][0]
        assert found is not None
        assert found.expiration_time == found.value.latest_expiration_time == soon
        assert found.value.maxsize > 7 and found.value.get(b"subkey").value == b"value"
        with told.freeze():
            told.maxsize = "any"
            answers = await alice.protocol.call_find(bob.protocol.p2p.peer_id, [lying])
        assert answers is not None and answers[lying][0] is not None

    together(story)


@pytest.mark.parametrize("what", ["another authority's", "expired", "somebody else's", "none"])
def test_a_pass_that_is_not_good_is_refused_when_its_bearer_calls_and_when_it_answers(
    together: Callable[..., None], tmp_path: Path, what: str
):
    async def story(peers: Peers) -> None:
        alice, bob = await peers.start("alice"), await peers.start("bob")
        mallory = await {
            "another authority's": lambda: peers.start("mallory", given_by=load_authority(tmp_path / "another.key")),
            "expired": lambda: peers.start("mallory", lifetime=-1.0),
            "somebody else's": lambda: peers.start("mallory", shown_by=bob),
            "none": lambda: peers.start("mallory"),
        }[what]()
        mallory.shows(b"" if what == "none" else mallory.gate.own.to_bytes())
        assert not await mallory.hears(alice)
        assert not await alice.hears(mallory)
        assert await alice.hears(bob)

    together(story)


@dataclasses.dataclass(frozen=True)
class Author:
    identity: Identity
    validator: PassValidator

    def record(
        self, subkey: bytes | None = None, lifetime: float = 60.0, value: object = CONTENT, key: bytes = b"key"
    ) -> DHTRecord:
        """A signed record under the author's own subkey, or the one given."""
        own = MSGPackSerializer.dumps(self.identity.subkey) if subkey is None else subkey
        bare = DHTRecord(key, own, MSGPackSerializer.dumps(value), get_dht_time() + lifetime)
        return dataclasses.replace(bare, value=self.validator.sign_value(bare))


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return load_authority(tmp_path_factory.mktemp("authority") / "authority.key")


@pytest.fixture(scope="module")
def author(authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Author]:
    def make(name: str, given_by: Authority = authority, lifetime: float = 3600.0) -> Author:
        folder: Path = tmp_path_factory.mktemp(name)
        identity = load_identity(folder / "identity.key")
        own = given_by.issue(RUN, name, identity.peer_id, lifetime)
        notices = sign_notices(Notices(time=time.time(), pass_time=time.time()), authority, RUN)
        return Author(identity, PassValidator(Gate(folder, RUN, authority.public_key, own, notices), identity))

    return make


@pytest.fixture(scope="module")
def alice(author: Callable[..., Author]) -> Author:
    return author("alice")


@pytest.fixture(scope="module")
def bob(author: Callable[..., Author]) -> Author:
    return author("bob")


def test_everybody_can_check_a_record_and_read_what_was_written(alice: Author, bob: Author):
    record = alice.record()
    assert bob.validator.validate(record)
    assert MSGPackSerializer.loads(bob.validator.strip_value(record)) == CONTENT


def test_nobody_writes_under_the_subkey_of_somebody_else(alice: Author, bob: Author):
    assert not alice.validator.validate(bob.record(MSGPackSerializer.dumps(alice.identity.subkey)))
    assert not alice.validator.validate(bob.record(MSGPackSerializer.dumps(b"nobody's")))
    assert not alice.validator.validate(bob.record(b"\x00"))  # a value that has no subkey


@pytest.mark.parametrize("field", ["key", "subkey", "value", "expiration_time"])
def test_a_record_that_was_changed_is_refused(alice: Author, bob: Author, field: str):
    record = alice.record()
    changes = {
        "key": b"another key",
        "subkey": MSGPackSerializer.dumps(bob.identity.subkey),
        "value": record.value.replace(b"\x03", b"\x04", 1),
        "expiration_time": record.expiration_time + 1.0,
    }
    assert changes["value"] != record.value
    assert not bob.validator.validate(dataclasses.replace(record, **{field: changes[field]}))


def test_a_record_without_an_author_is_refused(alice: Author, bob: Author):
    record = alice.record()
    for value in (alice.validator.strip_value(record), b"", b"[author:AAAA:AAAA]", record.value + b"x"):
        assert not bob.validator.validate(dataclasses.replace(record, value=value))


def test_a_pass_of_another_authority_is_worth_nothing(author: Callable[..., Author], bob: Author, tmp_path: Path):
    stranger = author("stranger", given_by=load_authority(tmp_path / "other.key"))
    assert not bob.validator.validate(stranger.record())


def test_no_record_stays_for_ever(alice: Author, bob: Author):
    assert not bob.validator.validate(alice.record(lifetime=LONGEST_LIFE + 60.0))


def test_one_author_has_one_voice_under_a_key(alice: Author, bob: Author):
    own, peer_id = alice.identity.subkey, alice.identity.peer_id.to_bytes()
    key = alice.validator._key_bytes
    for comment in (b" 1", b" 2", b"\t", b" [x]"):  # the same key for whoever reads it
        alice.validator._key_bytes = key + comment
        spoken = alice.record(MSGPackSerializer.dumps(own.replace(key, key + comment)))
        alice.validator._key_bytes = key
        assert not bob.validator.validate(spoken)
    for other in (own + b"1", b"1" + own, own + own, peer_id, peer_id + own):
        assert not bob.validator.validate(alice.record(MSGPackSerializer.dumps(other)))


@pytest.mark.parametrize("lifetime", [math.inf, -math.inf, math.nan])
def test_a_record_expires_at_some_time(alice: Author, bob: Author, lifetime: float):
    assert not bob.validator.validate(alice.record(lifetime=lifetime))


def test_only_the_coordinator_writes_notices(author: Callable[..., Author], alice: Author, bob: Author):
    notices = DHTID.generate(source=notices_key(RUN)).to_bytes()
    assert bob.validator.validate(author(COORDINATOR).record(value=b"x" * LONGEST, key=notices))
    assert not bob.validator.validate(author(COORDINATOR).record(value=b"x" * 2 * LONGEST, key=notices))
    assert not bob.validator.validate(alice.record(key=notices))


def test_a_record_has_a_length(alice: Author, bob: Author):
    assert bob.validator.validate(alice.record(value=b"x" * (LONGEST_VALUE // 2)))
    assert not bob.validator.validate(alice.record(value=b"x" * LONGEST_VALUE))
    assert not bob.validator.validate(alice.record(MSGPackSerializer.dumps(b"x" * LONGEST_VALUE)))


def test_a_record_does_not_turn_bad_when_the_pass_of_its_author_expires(author: Callable[..., Author], bob: Author):
    assert bob.validator.validate(author("leaving", lifetime=-1.0).record())
