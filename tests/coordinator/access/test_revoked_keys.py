from pathlib import Path

import pytest

from coordinator.access.person_key import LIFETIME, PersonalKey, issue_key, read_key
from coordinator.access.revoked_keys import RevokedKeys
from swarm import clock
from swarm.access.passes import load_authority
from swarm.errors import StorageError, SwarmError


def given_at(time: float, user: str = "asha", peer_id: str | None = None) -> PersonalKey:
    return PersonalKey(user, peer_id, time + LIFETIME)


def test_what_was_given_before_is_revoked_also_after_a_restart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "now", lambda: 1000.5)
    keys = RevokedKeys(tmp_path)
    assert not keys.includes(given_at(0.0))
    keys.revoke("asha", None)
    keys.revoke("~boat", "laptop")
    for seen in (keys, RevokedKeys(tmp_path)):
        assert seen.includes(given_at(1000.0)) and not seen.includes(given_at(1001.0))
        assert seen.includes(given_at(1000.0, "~boat", "laptop"))
        assert not seen.includes(given_at(1000.0, "~boat", "desktop"))
        assert not seen.includes(given_at(1000.0, "~boat"))


def test_a_key_that_is_given_at_once_is_good(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "now", lambda: 1000.5)
    keys, authority = RevokedKeys(tmp_path), load_authority(tmp_path / "authority.key")
    old, _ = issue_key(authority, "run", "asha", None)
    keys.revoke("asha", None)
    new, _ = issue_key(authority, "run", "asha", None, good_from=keys.good_from("asha", None))
    assert keys.includes(read_key(old, authority.public_key, "run"))
    assert not keys.includes(read_key(new, authority.public_key, "run"))


def test_a_second_revocation_within_a_second_is_one_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "now", lambda: 1000.5)
    keys, authority = RevokedKeys(tmp_path), load_authority(tmp_path / "authority.key")
    keys.revoke("asha", None)
    between, _ = issue_key(authority, "run", "asha", None, good_from=keys.good_from("asha", None))
    keys.revoke("asha", None)
    assert keys.includes(read_key(between, authority.public_key, "run"))


def test_revocations_of_expired_keys_are_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "now", lambda: 1000.0)
    keys = RevokedKeys(tmp_path)
    keys.revoke("asha", None)
    monkeypatch.setattr(clock, "now", lambda: 1001.0 + LIFETIME)
    keys.revoke("boat", None)
    assert "asha" not in (tmp_path / "revoked-keys.json").read_text()


def test_what_cannot_be_written_is_not_revoked(tmp_path: Path) -> None:
    folder = tmp_path / "a file"
    keys = RevokedKeys(folder)
    folder.touch()
    with pytest.raises(StorageError):
        keys.revoke("asha", None)
    assert not keys.includes(given_at(0.0))


@pytest.mark.parametrize("content", ["", "{}", '{"revoked": {"asha": 1.0}}', "[1]"])
def test_a_file_of_something_else_is_named(tmp_path: Path, content: str) -> None:
    (tmp_path / "revoked-keys.json").write_text(content)
    with pytest.raises(SwarmError, match=r"revoked-keys\.json: no revoked keys; restore the file, or remove it"):
        RevokedKeys(tmp_path)
