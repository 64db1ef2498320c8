"""Records of a run: whose they are is written in them, and anything else is refused."""

import dataclasses
import math
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hivemind.dht.routing import DHTID
from hivemind.dht.validation import DHTRecord
from hivemind.utils import MSGPackSerializer, get_dht_time

from swarm.access.gate import Gate
from swarm.access.notices import LONGEST, Notices, notices_key, sign_notices
from swarm.access.passes import Authority, load_authority
from swarm.dht.pass_validator import LONGEST_LIFE, LONGEST_VALUE, PassValidator
from swarm.identity import Identity, load_identity

RUN = "small-run"
CONTENT = {"step": 3}


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


def test_a_record_under_ones_peer_id_is_ones_own(alice: Author, bob: Author):
    own, bobs = (MSGPackSerializer.dumps(one.identity.peer_id.to_bytes()) for one in (alice, bob))
    assert bob.validator.validate(alice.record(own))
    assert not bob.validator.validate(alice.record(bobs))


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
    for other in (own + b"1", b"1" + own, own + own, peer_id + b"1", peer_id + own):
        assert not bob.validator.validate(alice.record(MSGPackSerializer.dumps(other)))


@pytest.mark.parametrize("lifetime", [math.inf, -math.inf, math.nan])
def test_a_record_expires_at_some_time(alice: Author, bob: Author, lifetime: float):
    assert not bob.validator.validate(alice.record(lifetime=lifetime))


def test_a_record_has_a_length(alice: Author, bob: Author):
    notices = DHTID.generate(source=notices_key(RUN)).to_bytes()
    assert bob.validator.validate(alice.record(value=b"x" * (LONGEST_VALUE // 2)))
    assert not bob.validator.validate(alice.record(value=b"x" * LONGEST_VALUE))
    assert bob.validator.validate(alice.record(value=b"x" * LONGEST, key=notices))
    assert not bob.validator.validate(alice.record(value=b"x" * 2 * LONGEST, key=notices))
    assert not bob.validator.validate(alice.record(MSGPackSerializer.dumps(b"x" * LONGEST_VALUE)))


def test_a_record_does_not_turn_bad_when_the_pass_of_its_author_expires(author: Callable[..., Author], bob: Author):
    assert bob.validator.validate(author("leaving", lifetime=-1.0).record())
