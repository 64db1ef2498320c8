"""The log on disk: what was acknowledged is there, and what is torn or garbled is not taken for an entry."""

import itertools
import os
import stat
from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock

import pytest

from averaging.log import entry_file
from averaging.log.entry_file import EntryFile, Record, chain_of, entries_after, line_of, missing_in, newest_step
from averaging.log.header import Ballot, Certificate, Entry, Farewell, Gap, Part
from swarm.errors import StorageError
from tests.averaging.log.headers import chain_of as headers_of
from tests.swarm.disk_faults import killed_after, small_disk

LEFT = Farewell("c.2", "x", 3, Ballot(2, "a.0"), b"signed")
CERTIFICATE = Certificate(Ballot(3, "b.1"), ("a.0", "b.1"), (LEFT,), (b"1", b"2"))
ENTRIES = [Entry(entry.header, CERTIFICATE) for entry in headers_of(5, parts=(Part("a.0", ("x", "y")),))]
RECORDS = [Record(entry, is_applied=True) for entry in ENTRIES]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "log"


def written(path: Path) -> bytes:
    EntryFile(path).append(RECORDS)
    return path.read_bytes()


def ends_of(content: bytes) -> list[int]:
    """Bytes up to the end of no entry, of one, and so on."""
    return [0, *itertools.accumulate(map(len, content.splitlines(keepends=True)))]


def loaded(path: Path) -> list[Entry]:
    return [record.entry for record in EntryFile(path).load()]


def test_entries_are_found_again(path: Path) -> None:
    log = EntryFile(path)
    assert log.load() == []
    log.append(RECORDS[:1])
    log.append([])
    log.append(RECORDS[1:3])
    again = EntryFile(path)
    assert again.load() == RECORDS[:3]
    again.append(RECORDS[3:])
    assert loaded(path) == ENTRIES
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_the_file_is_read_from_the_oldest_entry_that_is_needed(path: Path) -> None:
    log = EntryFile(path)
    log.append(RECORDS[:4])
    start = log.since(2)
    log.append([Record(ENTRIES[0], is_applied=False), *RECORDS[4:]])  # one that was missing
    assert log.since(2) == start
    again = EntryFile(path)
    found = again.load(start)
    assert [one.entry.header.step for one in found] == [2, 3, 0, 4]
    assert chain_of(found) == ENTRIES[2:]
    assert again.since(4) > start
    again.append([])
    assert EntryFile(path).load(again.end) == []


def test_the_chain_is_that_of_the_newest_header_that_was_applied(path: Path) -> None:
    """Two chains take the same step, and older headers come in between."""
    other = [Entry(entry.header, CERTIFICATE) for entry in headers_of(4, run="another")]
    log = EntryFile(path)
    log.append([*RECORDS, *(Record(one, is_applied=False) for one in other[:3])])
    assert chain_of(log.load()) == ENTRIES
    log.append([Record(other[3], is_applied=True)])
    log.append([Record(ENTRIES[1], is_applied=False)])
    assert chain_of(log.load()) == other


def test_headers_that_are_there_for_their_credit_alone_are_in_no_chain(path: Path) -> None:
    """Nobody has looked at their certificates, so they are not told to others as the run's."""
    log = EntryFile(path)
    log.append(RECORDS[3:])
    log.append([Record(one, is_applied=False, is_proven=False) for one in ENTRIES[1:3]])
    again = EntryFile(path).load()
    assert [one.entry for one in again] == [*ENTRIES[3:], *ENTRIES[1:3]]
    assert chain_of(again) == ENTRIES[3:]


def test_the_newest_step_is_found_at_the_end_of_the_file(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert newest_step(path) is None
    credited = [Record(one.entry, is_applied=False) for one in RECORDS]
    log = EntryFile(path)
    log.append(credited[:1])
    assert newest_step(path) is None
    log.append([*RECORDS, *credited[:2]])
    monkeypatch.setattr(entry_file, "_END", 100)
    assert newest_step(path) == 4
    read = Mock(side_effect=entry_file.value_of)
    monkeypatch.setattr(entry_file, "value_of", read)
    monkeypatch.setattr(entry_file, "_END", sum(len(line_of(one)) for one in (*RECORDS[4:], *credited[:2])) + 50)
    assert newest_step(path) == 4 and read.call_count == 4, "the end of one line, and three lines"


def test_entries_are_read_once_in_the_order_in_which_they_were_written(path: Path) -> None:
    log = EntryFile(path)
    assert entries_after(path, None, 3) == ([], None)
    log.append(RECORDS[:4])
    first, place = entries_after(path, None, 3)
    second, place = entries_after(path, place, 3)
    assert (first, second) == (ENTRIES[:3], ENTRIES[3:4])
    assert entries_after(path, place, 3) == ([], place)
    log.append(RECORDS[4:])
    path.write_bytes(path.read_bytes() + b"half of an entry")
    found, place = entries_after(path, place, 3)
    assert found == ENTRIES[4:] and place is not None
    path.unlink()
    EntryFile(path).append([Record(one, is_applied=True) for one in ENTRIES[3:]])
    assert entries_after(path, place, 3)[0] == ENTRIES[3:]  # it is another file


@pytest.fixture
def no_fsync(monkeypatch: pytest.MonkeyPatch) -> None:
    """Thousands of files are written, and no power is cut: the disk need not keep up."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


@pytest.mark.usefixtures("no_fsync")
def test_a_tail_that_is_torn_at_any_byte_is_left_out_and_written_over(path: Path) -> None:
    content = written(path)
    ends = ends_of(content)
    for size in range(len(content)):
        path.write_bytes(content[:size])
        log = EntryFile(path)
        whole = max(count for count in range(6) if ends[count] <= size)
        assert log.load() == RECORDS[:whole]
        log.append(RECORDS[whole : whole + 1])
        assert path.read_bytes() == content[: ends[whole + 1]]


@pytest.mark.parametrize(
    "tail", [b"\x00" * 64, b"\xff" * 64, b"\xff\xff\xff\xff" + bytes(60), line_of("half of an entry")[:-1]]
)
def test_what_a_crash_leaves_at_the_end_is_no_entry(path: Path, tail: bytes) -> None:
    content = written(path)
    path.write_bytes(content + tail)
    assert loaded(path) == ENTRIES


@pytest.mark.usefixtures("no_fsync")
def test_a_bit_that_flips_costs_its_entry_and_at_the_end_of_a_line_the_next_one(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    content = written(path)
    ends = ends_of(content)
    for position in range(len(content)):
        flipped = bytearray(content)
        flipped[position] ^= 1 << position % 8
        path.write_bytes(flipped)
        lost = sum(end <= position for end in ends[1:])
        after = lost + 1 + (position + 1 in ends)
        assert loaded(path) == ENTRIES[:lost] + ENTRIES[after:]
        assert EntryFile(path).end == ends[-1 if after < 5 else lost]
    first = f"{path}: bytes 0 to {ends[1] - 1} are broken and were left out; other peers are asked for what was there"
    assert caplog.messages[0].startswith(first)
    assert caplog.messages[-1].endswith("bytes after step 3 are broken and were left out")


@pytest.mark.parametrize("value", [3, (ENTRIES[1], True, 5), (ENTRIES[1],), (ENTRIES[1].header, True)])
def test_a_whole_line_that_is_no_entry_is_of_another_version(path: Path, value: object) -> None:
    path.write_bytes(written(path) + line_of(value))
    with pytest.raises(StorageError, match=f"{path}: written by another version of this program; go on with that one"):
        loaded(path)


def test_the_ledger_goes_on_after_an_entry_that_is_broken(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    content = written(path)
    ends = ends_of(content)
    for broken in (1, 2):
        spoilt = bytearray(content)
        spoilt[ends[broken] : ends[broken] + 90] = bytes(90)
        path.write_bytes(spoilt)
        told, found, place = Mock(), list[Entry](), None
        while True:
            some, place = entries_after(path, place, 2, told)
            if not some:
                break
            found += some
        assert found == ENTRIES[:broken] + ENTRIES[broken + 1 :] and told.call_count == 1
        assert caplog.messages[-1].startswith(f"{path}: bytes {ends[broken]} to {ends[broken + 1] - 1} are broken")
        lost = ENTRIES[broken].header
        assert missing_in(path) == [Gap(lost.step, lost.digest, lost.step - 1)]
    path.write_bytes(content)
    assert missing_in(path) == []


def test_an_entry_that_is_being_written_is_read_the_next_time(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    content = written(path)
    ends, told = ends_of(content), Mock()
    path.write_bytes(content[: ends[2] - 5])
    found, place = entries_after(path, None, 99, told)
    path.write_bytes(content)
    assert found == ENTRIES[:1] and entries_after(path, place, 99, told)[0] == ENTRIES[1:]
    assert not told.called and not caplog.messages


@pytest.mark.parametrize("read", [EntryFile.load, lambda log: log.append(RECORDS[:1])])
def test_a_file_that_is_no_log_is_not_written_over(path: Path, read: Callable[[EntryFile], object]) -> None:
    content = b"another format " * 10_000
    path.write_bytes(content)
    with pytest.raises(StorageError, match="none of its 150,000 bytes is an entry of a log; bring the folder back"):
        read(log := EntryFile(path))
    with pytest.raises(StorageError):  # and when it is tried again
        log.append(RECORDS[:1])
    assert path.read_bytes() == content


def test_a_full_disk_leaves_the_entries_before(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 64) as disk:
        entries = [Entry(entry.header, CERTIFICATE) for entry in headers_of(200, voters=("v" * 2000,))]
        records = [Record(entry, is_applied=True) for entry in entries]
        log = EntryFile(disk / "log")
        (disk / "other").write_bytes(bytes(20_000))
        with pytest.raises(StorageError) as caught:
            for record in records:
                log.append([record])
        assert str(caught.value) == f"{disk}/log: could not be saved, the disk is full; free some space"
        count = len(loaded(disk / "log"))
        assert 5 < count < 100
        assert loaded(disk / "log") == entries[:count]
        with pytest.raises(StorageError, match="the disk is full"):
            log.append(records[count : count + 50])
        (disk / "other").unlink()
        log.append(records[count : count + 1])
        assert loaded(disk / "log") == entries[: count + 1]


def test_a_place_that_cannot_be_read_or_written_says_so(tmp_path: Path) -> None:
    (tmp_path / "log").mkdir()
    with pytest.raises(StorageError, match=r"log: could not be read \(Is a directory\); "):
        loaded(tmp_path / "log")
    with pytest.raises(StorageError, match=r"none/log: could not be saved \(No such file or directory\); "):
        EntryFile(tmp_path / "none" / "log").append(RECORDS)


WRITER = """
    import sys
    from pathlib import Path
    from averaging.log.entry_file import EntryFile, Record
    from averaging.log.header import Entry, Certificate, Ballot, Header, HeaderKind

    log, voters = EntryFile(Path(sys.argv[1])), ("v" * 5000,)
    entries, ballot = [one.entry for one in log.load()], Ballot(0, "c.0")
    step, previous = (entries[-1].header.step, entries[-1].header.digest) if entries else (-1, "")
    while True:
        batch = []
        for _ in range(3):
            step += 1
            header = Header("run", step, HeaderKind.UPDATE, previous, ballot, voters=voters)
            batch.append(Record(Entry(header, Certificate(ballot)), True))
            previous = header.digest
        log.append(batch)
        print(step)
"""


def test_a_kill_at_any_moment_leaves_all_that_was_acknowledged(path: Path) -> None:
    for lines in (1, 5, 40):
        said = killed_after(WRITER, lines, path)
        found = loaded(path)
        assert [entry.header.step for entry in found] == list(range(len(found)))
        assert int(said[-1]) <= found[-1].header.step <= int(said[-1]) + 3
