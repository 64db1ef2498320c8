"""Passes, notices and the gate: what is let through, and what is not."""

import base64
import dataclasses
import stat
import time
from pathlib import Path
from typing import Any

import pytest
from hivemind.p2p import PeerID

from swarm import clock
from swarm.access.gate import SHUT_AFTER, Gate
from swarm.access.notices import LONGEST, BestCheckpoint, Notices, read_notices, sign_notices
from swarm.access.passes import Authority, Pass, PassRefused, check_pass, load_authority, read_pass
from swarm.errors import SwarmError
from swarm.identity import load_identity, peer_id_of

RUN = "small-run"
ALICE, BOB = PeerID(b"\x12 " + b"a" * 32), PeerID(b"\x12 " + b"b" * 32)
HOUR = 3600.0


@pytest.fixture
def alices(authority: Authority) -> Pass:
    return authority.issue(RUN, "alice", ALICE, HOUR)


def gate_of(folder: Path, authority: Authority, notices: Notices) -> Gate:
    own = authority.issue(RUN, "bob", BOB, HOUR)
    return Gate(folder, RUN, authority.public_key, own, sign_notices(notices, authority, RUN))


def test_a_pass_survives_the_wire_and_is_good_for_its_peer(authority: Authority, alices: Pass):
    assert read_pass(alices.to_bytes()) == alices
    check_pass(alices, authority.public_key, RUN, ALICE)


@pytest.mark.parametrize(
    ("change", "peer_id", "run"),
    [
        ({}, BOB, RUN),  # somebody else's
        ({}, ALICE, "other-run"),
        ({"user": "carol"}, ALICE, RUN),
        ({"expires": 4e9}, ALICE, RUN),
        ({"signature": bytes(64)}, ALICE, RUN),
        ({"signature": b"short"}, ALICE, RUN),
    ],
)
def test_a_pass_that_was_changed_or_is_not_ones_own_is_refused(
    authority: Authority, alices: Pass, change: dict[str, Any], peer_id: PeerID, run: str
):
    changed = dataclasses.replace(alices, **change)
    with pytest.raises(PassRefused, match="was not given to this peer"):
        check_pass(changed, authority.public_key, run, peer_id)


def test_another_authority_gives_no_passes_here(authority: Authority, tmp_path: Path):
    other = load_authority(tmp_path / "other" / "authority.key")
    with pytest.raises(PassRefused):
        check_pass(other.issue(RUN, "alice", ALICE, HOUR), authority.public_key, RUN, ALICE)


def test_an_expired_pass_is_refused(authority: Authority):
    with pytest.raises(PassRefused, match="expired"):
        check_pass(authority.issue(RUN, "alice", ALICE, -1.0), authority.public_key, RUN, ALICE)


@pytest.mark.parametrize(
    "junk", [b"", b"\xc1", b"\x93\x01\x02\x03", b"x" * 10_000, b"\x93\xa0\xcb" + bytes(8) + b"\xc4\x00"]
)
def test_what_is_no_pass_is_refused(junk: bytes):
    with pytest.raises(PassRefused):
        read_pass(junk)


def test_the_key_is_kept_and_is_nobody_elses(tmp_path: Path):
    path = tmp_path / "authority.key"
    first = load_authority(path)
    assert load_authority(path).public_key == first.public_key
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.write_bytes(b"broken")
    with pytest.raises(SwarmError, match="not an authority's key"):
        load_authority(path)


def test_a_peer_id_is_the_hash_of_the_public_key(tmp_path: Path):
    identity = load_identity(tmp_path / "identity.key")
    assert peer_id_of(identity.private_key.get_public_key().to_bytes()) == identity.peer_id
    with pytest.raises(ValueError, match="RSA"):
        peer_id_of(b"ssh-ed25519 AAAA")


def test_a_key_of_a_megabyte_is_not_even_read():
    e, n = b"\x01\x00\x01", b"\x00" + b"\xff" * 10**6
    parts = b"".join(len(part).to_bytes(4, "big") + part for part in (b"ssh-rsa", e, n))
    with pytest.raises(ValueError, match="length"):
        peer_id_of(b"ssh-rsa " + base64.b64encode(parts))


def test_notices_are_the_authoritys_and_of_this_run(authority: Authority, tmp_path: Path):
    best = BestCheckpoint(12, 2.5, 0.75, "The [river] flows.")
    banned = frozenset({"mallory", str(ALICE)})
    notices = Notices(time=5.0, banned=banned, announcement="Thanks!", paused=True, best=best)
    signed = sign_notices(notices, authority, RUN)
    assert read_notices(signed, authority.public_key, RUN) == notices
    other = load_authority(tmp_path / "other.key")
    for junk, run in (
        (signed, "other-run"),
        (sign_notices(notices, other, RUN), RUN),
        (b"junk", RUN),
        (signed[:-1], RUN),
    ):
        with pytest.raises(PassRefused):
            read_notices(junk, authority.public_key, run)
    with pytest.raises(ValueError, match="too long"):
        sign_notices(Notices(announcement="x" * LONGEST), authority, RUN)


def test_a_ban_closes_the_gate_by_name_and_by_peer(authority: Authority, alices: Pass, tmp_path: Path):
    gate = gate_of(tmp_path, authority, Notices(time=time.time()))
    assert gate.admit(ALICE, alices.to_bytes()).user == "alice"
    for number, banned in enumerate(("alice", str(ALICE))):
        newer = Notices(time=time.time() + number + 1, banned=frozenset({banned}))
        gate.take_notice(sign_notices(newer, authority, RUN))
        with pytest.raises(PassRefused, match="banned"):
            gate.admit(ALICE, alices)


def test_older_notices_do_not_lift_a_ban(authority: Authority, tmp_path: Path):
    gate = gate_of(tmp_path, authority, Notices(time=100.0, banned=frozenset({"alice"})))
    gate.take_notice(sign_notices(Notices(time=99.0), authority, RUN))
    assert gate.notices.bans("alice", "")


def test_other_processes_of_the_peer_see_a_renewed_pass_and_new_notices(authority: Authority, tmp_path: Path):
    gate = gate_of(tmp_path, authority, Notices(time=1.0))
    twin = Gate.__new__(Gate)  # as a forked process has it: the same files, nothing shared in memory
    Gate.__init__(twin, tmp_path, RUN, authority.public_key, gate.own, sign_notices(Notices(time=1.0), authority, RUN))
    assert twin.own == gate.own
    renewed = authority.issue(RUN, "bob", BOB, 2 * HOUR)
    gate.renew(renewed)
    gate.take_notice(sign_notices(Notices(time=2.0, announcement="hello"), authority, RUN))
    assert twin.own == renewed
    assert twin.notices.announcement == "hello"


def test_passes_do_not_expire_while_nobody_can_renew_them(authority: Authority, tmp_path: Path):
    expired = authority.issue(RUN, "alice", ALICE, -1.0)
    now = time.time()
    away = gate_of(tmp_path / "away", authority, Notices(time=now, pass_time=now - 2 * SHUT_AFTER))
    assert away.admit(ALICE, expired).user == "alice"
    here = gate_of(tmp_path / "here", authority, Notices(time=now, pass_time=now))
    with pytest.raises(PassRefused, match="expired"):
        here.admit(ALICE, expired)


def test_where_passes_are_short_they_stop_expiring_sooner(
    authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Who cannot renew has half of the lifetime left; a gate of ten minutes would see that pass expire."""
    now = time.time()
    own, its = authority.issue(RUN, "bob", BOB, 20.0), authority.issue(RUN, "alice", ALICE, 10.0)
    gate = Gate(
        tmp_path, RUN, authority.public_key, own, sign_notices(Notices(time=now, pass_time=now), authority, RUN)
    )
    monkeypatch.setattr(clock, "now", lambda: now + HOUR)
    assert gate.admit(ALICE, its).user == "alice"
