"""A page of the ledger cannot be read: at the next start the copy takes its place, and the log has the rest."""

import errno
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

import pytest

from coordinator.ledger.ingest import SessionReport
from coordinator.ledger.ledger import Ledger, open_ledger
from coordinator.ledger.storage.database import LedgerBroken
from swarm.errors import StorageError

Report = Callable[..., SessionReport]
URL = "sqlite:///ledger.db"
PAGE = 4096  # bytes


def fill(ledger: Ledger, report: Report, steps: range) -> None:
    for step in steps:
        ledger.record(
            report(f"{session:x}" * 4, user=f"user-{session}", steps={step: (10, 5.0)}, last_seen=1000.0 + step)
            for session in range(16)
        )


def spoil(path: Path) -> None:
    """Overwrite every second page but the first, as a dying disk might; nothing is left in the write-ahead log."""
    content = bytearray(path.read_bytes())
    for start in range(PAGE, len(content), 2 * PAGE):
        content[start : start + PAGE] = b"\xa5" * PAGE
    path.write_bytes(content)


@pytest.fixture
def written(tmp_path: Path, report: Report) -> Path:
    """A ledger of 100 global steps with a copy of the first 90; nobody has it open."""
    ledger = open_ledger(URL, tmp_path)
    fill(ledger, report, range(90))
    ledger.back_up()
    fill(ledger, report, range(90, 100))
    ledger.close()
    return tmp_path / "ledger.db"


def test_a_ledger_that_is_opened_again_goes_on_from_its_copy(
    written: Path, report: Report, caplog: pytest.LogCaptureFixture
):
    spoil(written)
    broken = written.read_bytes()
    ledger = open_ledger(URL, written.parent)
    assert len(ledger.steps()) == 90
    fill(ledger, report, range(85, 100))  # peers repeat what they did last
    assert [(one.step, one.samples) for one in ledger.steps()] == [(step, 160) for step in range(100)]
    assert ledger.leaderboard()[0].samples == 1000
    ledger.close()
    assert (written.parent / "ledger.db-broken-1").read_bytes() == broken
    assert "goes on from its copy" in caplog.text


def test_a_ledger_that_breaks_while_it_is_open_goes_on_from_its_copy_after_a_restart(written: Path, report: Report):
    ledger = open_ledger(URL, written.parent)
    ledger.close()  # its connections have read nothing yet
    spoil(written)
    with pytest.raises(LedgerBroken):
        fill(ledger, report, range(100, 101))
    with pytest.raises(LedgerBroken):
        ledger.back_up()  # the copy is not spoiled by it
    ledger.close()
    ledger = open_ledger(URL, written.parent)
    assert written.with_name("ledger.db-broken-1").exists()
    fill(ledger, report, range(85, 101))
    assert {one.samples for one in ledger.steps()} == {160}
    assert len(ledger.steps()) == 101
    ledger.close()


def test_a_ledger_that_is_not_there_goes_on_from_its_copy(written: Path, caplog: pytest.LogCaptureFixture):
    written.unlink()
    ledger = open_ledger(URL, written.parent)
    assert len(ledger.steps()) == 90
    ledger.close()
    assert "ledger.db: was not there; the run goes on from its copy" in caplog.text


def test_what_a_crash_left_of_putting_it_back_is_done_at_the_next_start(written: Path, monkeypatch: pytest.MonkeyPatch):
    spoil(written)
    rename = Path.replace

    def crash(path: Path, target: Path) -> Path:
        if target == written:  # all but the last renaming
            raise KeyboardInterrupt
        return rename(path, target)

    monkeypatch.setattr(Path, "replace", crash)
    with pytest.raises(KeyboardInterrupt):
        open_ledger(URL, written.parent)
    monkeypatch.undo()
    assert not written.exists()
    ledger = open_ledger(URL, written.parent)
    assert len(ledger.steps()) == 90
    ledger.close()
    assert written.with_name("ledger.db-broken-1").exists()


def test_where_there_is_no_room_for_the_copy_the_broken_ledger_stays(written: Path, monkeypatch: pytest.MonkeyPatch):
    spoil(written)
    content = written.read_bytes()

    def no_room(_good: object, again: BinaryIO) -> None:
        again.write(b"half")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(shutil, "copyfileobj", no_room)
    with pytest.raises(StorageError, match="full"):
        open_ledger(URL, written.parent)
    assert written.read_bytes() == content
    assert written.with_name("ledger.db-backup").exists()
    assert not list(written.parent.glob("*partial*"))


def test_without_a_copy_the_broken_file_stays_where_it_is(written: Path):
    written.with_name("ledger.db-backup").unlink()
    spoil(written)
    content = written.read_bytes()
    with pytest.raises(LedgerBroken, match="the file is broken"):
        open_ledger(URL, written.parent)
    assert written.read_bytes() == content


def test_a_copy_is_of_one_moment_while_others_write(tmp_path: Path, report: Report):
    ledger = open_ledger(URL, tmp_path)
    fill(ledger, report, range(5))
    ledger.back_up()
    fill(ledger, report, range(5, 8))
    ledger.back_up()
    copy = open_ledger(f"sqlite:///{tmp_path}/ledger.db-backup", tmp_path)
    assert [one.samples for one in copy.steps()] == [160] * 8
    copy.close()
    ledger.close()
    assert not [path for path in tmp_path.iterdir() if ".partial" in path.name]


def test_a_copy_that_does_not_fit_is_not_begun(tmp_path: Path, report: Report, monkeypatch: pytest.MonkeyPatch):
    ledger = open_ledger(URL, tmp_path)
    fill(ledger, report, range(5))
    usage = shutil.disk_usage(tmp_path)._replace(free=(tmp_path / "ledger.db").stat().st_size)
    monkeypatch.setattr("coordinator.ledger.storage.backup.shutil.disk_usage", lambda folder: usage)
    with pytest.raises(StorageError, match="no room for a copy of the ledger, which takes"):
        ledger.back_up()
    assert not [path for path in tmp_path.iterdir() if "backup" in path.name]
    ledger.close()


def test_postgresql_is_left_to_its_own_ways(ledger: Ledger, ledger_url: str, tmp_path: Path):
    ledger.back_up()
    copies = [path.name for path in tmp_path.iterdir() if "backup" in path.name]
    assert copies == (["ledger.db-backup"] if ledger_url.startswith("sqlite") else [])
