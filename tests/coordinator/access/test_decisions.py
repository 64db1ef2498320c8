"""What the organizer has decided is on the disk before it takes effect, and is published."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pytest

from coordinator.access import decisions
from coordinator.access.decisions import NoticeStore, keep_publishing, open_access_control
from swarm.access.notices import BestCheckpoint, Notices, read_notices
from swarm.access.passes import Authority
from swarm.errors import StorageError, SwarmError
from swarm.identity import load_identity
from tests.support.waiting import PATIENCE


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


def test_who_is_on_probation_stands_in_the_notices_over_a_restart_too(tmp_path: Path, authority: Authority) -> None:
    store = NoticeStore(tmp_path, authority, "a-run")
    store.put_on_probation(frozenset({"asha", "~boat"}))
    store.announce("Sunday")
    assert read(store, authority).on_probation == {"asha", "~boat"}
    store.put_on_probation(frozenset({"asha"}))
    assert read(store, authority).on_probation == {"asha"}
    assert read(NoticeStore(tmp_path, authority, "a-run"), authority).on_probation == {"asha"}


def test_notices_are_each_later_than_the_one_before(
    tmp_path: Path, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = NoticeStore(tmp_path, authority, "a-run")
    with ThreadPoolExecutor(4) as pool:
        times = [one.result().time for one in [pool.submit(read, store, authority) for _ in range(200)]]
    assert len(set(times)) == 200
    monkeypatch.setattr(decisions.clock, "now", lambda: 1000.0)  # the clock was set back
    assert read(store, authority).time > max(times)
    store.pause()
    again = NoticeStore(tmp_path, authority, "a-run")
    assert read(again, authority).time > max(times)


def test_the_time_is_noted_now_and_then(tmp_path: Path, authority: Authority, monkeypatch: pytest.MonkeyPatch) -> None:
    store = NoticeStore(tmp_path, authority, "a-run")
    monkeypatch.setattr(decisions.clock, "now", lambda: 5000.0)
    store.current()
    assert json.loads((tmp_path / "notices.json").read_text())["time"] == 5000.0
    monkeypatch.setattr(decisions.clock, "now", lambda: 5059.0)
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
    monkeypatch.setattr(decisions, "write_file", Mock(side_effect=StorageError("the disk is full")))
    with pytest.raises(StorageError):
        store.unban("asha")
    assert read(store, authority).banned == {"asha"}
    monkeypatch.setattr(decisions.clock, "now", lambda: 1e10)
    assert read(store, authority).time == 1e10  # the authority stays audible


def test_of_two_decisions_at_a_time_none_is_lost(
    tmp_path: Path, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = NoticeStore(tmp_path, authority, "a-run")
    is_writing, goes_on, lock = threading.Event(), threading.Event(), store._lock

    class Lock:
        """Lets the first decision go on when the second one waits for it."""

        def __enter__(self) -> None:
            if is_writing.is_set():
                goes_on.set()
            lock.acquire()

        def __exit__(self, *exc_info: object) -> None:
            lock.release()

    monkeypatch.setattr(store, "_lock", Lock())

    def slow(*_: object) -> None:
        is_writing.set()
        assert goes_on.wait(PATIENCE)

    monkeypatch.setattr(decisions, "write_file", slow)
    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(store.ban, "asha")
        assert is_writing.wait(PATIENCE)
        second = threads.submit(store.ban, "~boat")
        first.result(PATIENCE), second.result(PATIENCE)
    assert read(store, authority).banned == {"asha", "~boat"}


def test_a_checkpoint_is_told_only_where_the_decisions_leave_room(tmp_path: Path, authority: Authority) -> None:
    store, bans = NoticeStore(tmp_path, authority, "a-run"), {f"12D3KooW{number:044}" for number in range(1190)}
    store.show_best(best := BestCheckpoint(step=1, loss=5.0, sentence="x" * 4000))
    store.ban(*bans)  # for which there is no room beside it
    assert (read(store, authority).banned, read(store, authority).best) == (bans, None)
    store.show_best(replace(best, step=2))
    assert (read(store, authority).banned, read(store, authority).best) == (bans, None)
    store.unban(*sorted(bans)[:100])
    assert read(store, authority).best == replace(best, step=2)


@pytest.mark.parametrize(
    "content",
    ["", "[]", "{}", '{"banned": [], "pausd": true}', '{"banned": "asha"}', '{"banned": [1]}', "\x00"],
)
def test_a_broken_file_is_told_and_left_alone(tmp_path: Path, authority: Authority, content: str) -> None:
    (tmp_path / "notices.json").write_text(content)
    with pytest.raises(SwarmError, match=r"notices\.json") as caught:
        NoticeStore(tmp_path, authority, "a-run")
    assert "\n" not in str(caught.value)
    assert (tmp_path / "notices.json").read_text() == content


def test_a_full_disk_ends_no_publications(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    identity = load_identity(tmp_path / "identity.key")
    access = open_access_control("run", tmp_path, identity, 3600.0)
    monkeypatch.setattr(access.gate, "take_notice", Mock(side_effect=StorageError("the disk is full")))
    monkeypatch.setattr(decisions, "POLL_EVERY", 0.01)
    monkeypatch.setattr(decisions, "PUBLISH_EVERY", 0.0)
    stored, stop = threading.Semaphore(0), threading.Event()
    dht = Mock(store=lambda **what: stored.release())
    thread = threading.Thread(target=keep_publishing, args=(access, dht, identity, stop))
    thread.start()
    try:
        assert all(stored.acquire(timeout=PATIENCE) for _ in range(3))
    finally:
        stop.set()
        thread.join()
