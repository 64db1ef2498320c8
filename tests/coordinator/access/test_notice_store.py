import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from coordinator.access import notice_store
from coordinator.access.notice_store import Decisions, NoticeStore
from swarm.access.notices import Notices, read_notices
from swarm.access.passes import Authority, load_authority
from swarm.errors import StorageError, SwarmError


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return load_authority(tmp_path / "authority.key")


def read(store: NoticeStore, authority: Authority) -> Notices:
    return read_notices(store.current(), authority.public_key, "a-run")


def test_decisions_survive_a_restart(tmp_path: Path, authority: Authority) -> None:
    store = NoticeStore(tmp_path, authority, "a-run")
    store.ban("asha", "12D3KooW")
    store.ban("~boat")
    store.unban("ASHA")
    store.allow("sea")
    store.announce("Sunday")
    store.pause()
    again = NoticeStore(tmp_path, authority, "a-run")
    assert again.decisions == store.decisions
    found = read(again, authority)
    assert found.banned == {"12D3KooW", "~boat"}
    assert (found.announcement, found.paused, found.stopped) == ("Sunday", True, False)
    assert again.decisions.allowed == {"sea"}
    again.stop()
    assert read(again, authority).stopped
    again.resume()
    again.disallow("Sea")
    last = NoticeStore(tmp_path, authority, "a-run").decisions
    assert (last.paused, last.stopped, last.allowed) == (False, False, frozenset())


def test_notices_are_each_later_than_the_one_before(
    tmp_path: Path, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = NoticeStore(tmp_path, authority, "a-run")
    with ThreadPoolExecutor(4) as pool:
        times = [one.result().time for one in [pool.submit(read, store, authority) for _ in range(200)]]
    assert len(set(times)) == 200
    monkeypatch.setattr(notice_store.clock, "now", lambda: 1000.0)  # the clock was set back
    assert read(store, authority).time > max(times)
    store.pause()
    again = NoticeStore(tmp_path, authority, "a-run")
    assert read(again, authority).time > max(times)


def test_the_time_is_noted_now_and_then(tmp_path: Path, authority: Authority, monkeypatch: pytest.MonkeyPatch) -> None:
    store = NoticeStore(tmp_path, authority, "a-run")
    monkeypatch.setattr(notice_store.clock, "now", lambda: 5000.0)
    store.current()
    assert json.loads((tmp_path / "notices.json").read_text())["time"] == 5000.0
    monkeypatch.setattr(notice_store.clock, "now", lambda: 5059.0)
    store.current()
    assert json.loads((tmp_path / "notices.json").read_text())["time"] == 5000.0


def test_what_cannot_be_kept_or_spread_is_not_decided(
    tmp_path: Path, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = NoticeStore(tmp_path, authority, "a-run")
    store.ban("asha")
    with pytest.raises(SwarmError, match="unban") as caught:
        store.ban(*(f"12D3KooW{number:044}" for number in range(2000)))
    assert "\n" not in str(caught.value)

    def full(*_: object) -> None:
        raise StorageError("the disk is full")

    monkeypatch.setattr(notice_store, "write_file", full)
    with pytest.raises(StorageError):
        store.unban("asha")
    assert read(store, authority).banned == {"asha"}
    monkeypatch.setattr(notice_store.clock, "now", lambda: 1e10)
    assert read(store, authority).time == 1e10  # the authority stays audible


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"banned": "asha"}', '{"banned": [1]}', "\x00"])
def test_a_broken_file_is_told_and_left_alone(tmp_path: Path, authority: Authority, content: str) -> None:
    (tmp_path / "notices.json").write_text(content)
    with pytest.raises(SwarmError, match=r"notices\.json") as caught:
        NoticeStore(tmp_path, authority, "a-run")
    assert "\n" not in str(caught.value)
    assert (tmp_path / "notices.json").read_text() == content


def test_a_new_store_is_empty(tmp_path: Path, authority: Authority) -> None:
    assert NoticeStore(tmp_path, authority, "a-run").decisions == Decisions()
