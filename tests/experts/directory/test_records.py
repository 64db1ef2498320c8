"""Records of hosts: what is written is read, and what no host of ours writes is not listed."""

from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hivemind.dht.routing import DHTID
from hivemind.dht.validation import DHTRecord
from hivemind.utils import MSGPackSerializer, ValueWithExpiration

from experts.directory.assignment import Holdings
from experts.directory.records import LARGEST_VERSION, LIFETIME, MOST_EXPERTS, Directory, NoAnswer
from experts.grid import all_uids
from experts.remote.following import routes
from swarm import clock
from swarm.access.gate import Gate
from swarm.dht.passes_in_dht import LONGEST_VALUE, PassValidator
from swarm.identity import Identity, load_identity
from tests.averaging.transport.peers import Guarded

GRID = (2, 3)
SETTINGS = "0123456789abcdef"
A, B = (0, 1), (1, 2)


class OneDht:
    """Keeps what is stored, if its validators let it."""

    def __init__(self) -> None:
        self.validators: list[Any] = []
        self.stored: dict[bytes, ValueWithExpiration[Any]] = {}

    def add_validators(self, validators: list[Any]) -> None:
        self.validators += validators

    def lets(self, key: str, subkey: bytes, value: Any, expires: float) -> bool:
        packed = MSGPackSerializer.dumps(value)
        record = DHTRecord(DHTID.generate(source=key).to_bytes(), MSGPackSerializer.dumps(subkey), packed, expires)
        return all(one.validate(record) for one in self.validators)

    def store(self, key: str, value: Any, expires: float, subkey: bytes, return_future: bool) -> "Future[bool]":
        is_good = self.lets(key, subkey, value, expires)
        if is_good:
            self.stored[subkey] = ValueWithExpiration(value, expires)
        return done(is_good)

    def get(self, key: str, latest: bool, return_future: bool) -> "Future[Any]":
        if not self.stored:
            return done(None)
        return done(ValueWithExpiration(self.stored, max(one.expiration_time for one in self.stored.values())))


def done(result: Any) -> "Future[Any]":
    future: Future[Any] = Future()
    future.set_result(result)
    return future


class Run:
    """Hosts of a guarded run that share a DHT."""

    def __init__(self, folder: Path):
        self.folder, self.guarded, self.dht = folder, Guarded(folder), OneDht()

    def host(self, name: str, settings: str = SETTINGS) -> tuple[Identity, Gate, Directory]:
        identity = load_identity(self.folder / f"{name}.key")
        gate = self.guarded.gate(name, identity.peer_id)
        return identity, gate, Directory(self.dht, "guarded-run", gate, GRID, settings)


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run(tmp_path)


def holdings(identity: Identity, **held: Any) -> Holdings:
    return Holdings(identity.peer_id.to_base58(), **held)


def test_a_host_is_listed_with_its_user_and_what_it_has(run: Run):
    identity, _, directory = run.host("amina")
    own = holdings(identity, serves={A: 7}, copies={B: 3})
    assert directory.store(identity, own, 0.5)
    (listed,) = directory.read()
    assert (listed.peer_id, listed.user, listed.holdings, listed.load) == (identity.peer_id, "amina", own, 0.5)
    assert 0.0 <= clock.now() + LIFETIME - listed.expires < LIFETIME
    assert routes([listed]) == {A: identity.peer_id}


def test_hosts_of_banned_users_of_other_settings_and_with_others_passes_are_not_listed(run: Run):
    reader = run.host("reader")[2]
    for name, settings in (("banned", SETTINGS), ("elsewhere", "f" * 16), ("good", SETTINGS)):
        identity, _, directory = run.host(name, settings)
        assert directory.store(identity, holdings(identity, serves={A: 1}), 0.0)
    identity, _, directory = run.host("thief")
    directory._gate = run.guarded.gates[-2]
    assert directory.store(identity, holdings(identity, serves={A: 1}), 0.0)
    assert {host.user for host in reader.read()} == {"banned", "good"}
    run.guarded.ban("banned")
    assert [host.user for host in reader.read()] == ["good"]


def test_an_expert_outside_the_grid_is_left_out(run: Run):
    identity, _, directory = run.host("amina")
    assert directory.store(identity, holdings(identity, serves={A: 1, (2, 0): 1, (0,): 1}), 0.0)
    assert directory.read()[0].holdings.serves == {A: 1}


@pytest.mark.parametrize("expires", [-1.0, LIFETIME + clock.SLACK + 1.0], ids=["expired", "later than others"])
def test_a_record_with_another_end_of_life_is_left_out(run: Run, expires: float):
    identity, _, directory = run.host("amina")
    assert directory.store(identity, holdings(identity, serves={A: 1}), 0.0)
    stored = run.dht.stored[identity.subkey]
    run.dht.stored[identity.subkey] = ValueWithExpiration(stored.value, clock.now() + expires)
    assert directory.read() == []


def test_when_nobody_answers_that_is_not_as_if_there_were_no_hosts(run: Run):
    with pytest.raises(NoAnswer):
        run.host("amina")[2].read()


def test_a_record_counts_until_it_expires_though_answers_lack_it(run: Run, monkeypatch: pytest.MonkeyPatch):
    reader = run.host("reader")[2]
    for name in ("amina", "bimal"):
        identity, _, directory = run.host(name)
        assert directory.store(identity, holdings(identity, serves={A: 1}), 0.0)
    assert [host.user for host in reader.read()] == ["amina", "bimal"]
    begin = clock.now()
    del run.dht.stored[identity.subkey]
    assert [host.user for host in reader.read()] == ["amina", "bimal"]
    (kept,) = run.dht.stored
    run.dht.stored[kept] = ValueWithExpiration(run.dht.stored[kept].value, begin + 2 * LIFETIME)
    monkeypatch.setattr(clock, "now", lambda: begin + LIFETIME + 1.0)
    assert [host.user for host in reader.read()] == ["amina"]


def test_of_two_records_of_a_host_the_newer_counts_whichever_comes_last(run: Run):
    identity, _, directory = run.host("amina")
    assert directory.store(identity, holdings(identity, serves={A: 1}), 0.0)
    directory.read()
    older = run.dht.stored[identity.subkey]
    assert directory.store(identity, holdings(identity), 0.0)  # it leaves
    assert directory.read()[0].holdings.serves == {}
    run.dht.stored[identity.subkey] = older
    assert directory.read()[0].holdings.serves == {}


def test_a_version_that_no_record_can_hold_is_told_as_the_largest(run: Run):
    identity, _, directory = run.host("amina")
    assert directory.store(identity, holdings(identity, serves={A: LARGEST_VERSION + 1}), 0.0)
    assert directory.read()[0].holdings.serves == {A: LARGEST_VERSION}


@pytest.mark.parametrize(
    "change",
    [
        {"serves": [{"uid": [0, 1], "version": -1}]},
        {"serves": [{"uid": [0, 1], "version": 2**60}]},
        {"serves": [{"uid": [], "version": 1}]},
        {"serves": [{"uid": [0] * 5, "version": 1}]},
        {"serves": [{"uid": [0.0, 1], "version": 1}]},
        {"serves": [{"uid": [0, 1], "version": 1, "more": 1}]},
        {"serves": [{"uid": [0, at], "version": 1} for at in range(MOST_EXPERTS + 1)]},
        {"load": float("nan")},
        {"load": -1.0},
        {"settings": "other"},
        {"shown_pass": bytes(257)},
        {"leaves": 1},
        {"more": 1},
    ],
)
def test_what_no_host_of_ours_writes_is_neither_stored_nor_listed(run: Run, change: dict[str, Any]):
    identity, gate, directory = run.host("amina")
    record = {
        "settings": SETTINGS,
        "shown_pass": gate.own.to_bytes(),
        "serves": [],
        "copies": [],
        "load": 0.0,
        "leaves": False,
    }
    expires = clock.now() + 30.0
    key = "guarded-run_expert_hosts"
    assert run.dht.lets(key, identity.subkey, record, expires)
    assert not run.dht.lets(key, identity.subkey, {**record, **change}, expires)
    run.dht.stored[identity.subkey] = ValueWithExpiration({**record, **change}, expires)
    assert directory.read() == []


def test_a_host_that_leaves_is_listed_as_that(run: Run):
    identity, _, directory = run.host("amina")
    assert directory.store(identity, replace(holdings(identity, serves={A: 1}), leaves=True), 0.0)
    assert directory.read()[0].holdings.leaves
    assert routes(directory.read()) == {}, "trainers call it no longer"
    assert directory.store(identity, holdings(identity, serves={A: 1}), 0.0)  # it is back
    assert routes(directory.read()) == {A: identity.peer_id}


def test_the_longest_record_is_let_through(run: Run):
    identity, gate, directory = run.host("amina")
    versions = dict.fromkeys(list(all_uids((32, 32)))[:MOST_EXPERTS], 2**40)
    assert directory.store(identity, holdings(identity, serves=versions, copies=versions), 1e9)
    (stored,) = run.dht.stored.values()
    validator = PassValidator(gate, identity)
    record = DHTRecord(b"key", identity.subkey, MSGPackSerializer.dumps(stored.value), clock.now() + 30.0)
    assert len(validator.sign_value(record)) <= LONGEST_VALUE
