"""The log on disk: what was acknowledged is there, and what is torn or garbled is not taken for an entry."""

import itertools
import os
import stat
from dataclasses import replace
from pathlib import Path

import msgpack
import pytest

from averaging.log.header import Ballot, Certificate, Entry, Farewell, Part
from averaging.log.log_file import LogFile, framed, unframed
from swarm.errors import StorageError
from tests.averaging_log.headers import chain_of
from tests.averaging_log.killed import killed_after
from tests.averaging_log.small_disk import small_disk

LEFT = Farewell("c.2", "x", 3, Ballot(2, "a.0"), b"signed")
CERTIFICATE = Certificate(Ballot(3, "b.1"), ("a.0", "b.1"), (LEFT,), (b"1", b"2"))
ENTRIES = [Entry(entry.header, CERTIFICATE) for entry in chain_of(5, parts=(Part("a.0", ("x", "y")),))]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "log"


def written(path: Path) -> bytes:
    LogFile(path).append(ENTRIES)
    return path.read_bytes()


def ends_of(content: bytes) -> list[int]:
    """Bytes up to the end of no entry, of one, and so on."""
    return [0, *itertools.accumulate(len(framed(one)) for one in unframed(content))]


def loaded(path: Path) -> list[Entry]:
    return LogFile(path).load()


def test_entries_are_found_again(path: Path) -> None:
    log = LogFile(path)
    assert (log.load(), log.tip) == ([], None)
    log.append(ENTRIES[:1])
    log.append([])
    log.append(ENTRIES[1:3])
    again = LogFile(path)
    assert again.load() == ENTRIES[:3]
    assert again.tip == ENTRIES[2].header
    again.append(ENTRIES[3:])
    assert loaded(path) == ENTRIES
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_chain_may_begin_anywhere_and_be_replaced_by_another(path: Path) -> None:
    log = LogFile(path)
    log.append(ENTRIES)
    other = [Entry(entry.header, CERTIFICATE) for entry in chain_of(4, run="another")]
    log.replace(other[1:3])
    log.append(other[3:])
    assert loaded(path) == other[1:]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    log.replace([])
    assert loaded(path) == []
    log.append(ENTRIES[2:])
    assert loaded(path) == ENTRIES[2:]


def test_a_gap_is_not_written(path: Path) -> None:
    log = LogFile(path)
    log.append(ENTRIES[:2])
    for wrong in (ENTRIES[3:], ENTRIES[1:], [ENTRIES[2], ENTRIES[4]]):
        with pytest.raises(AssertionError, match="a gap"):
            log.append(wrong)
    assert loaded(path) == ENTRIES[:2]


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
        log = LogFile(path)
        whole = max(count for count in range(6) if ends[count] <= size)
        assert log.load() == ENTRIES[:whole]
        log.append(ENTRIES[whole : whole + 1])
        assert path.read_bytes() == content[: ends[whole + 1]]


@pytest.mark.parametrize("tail", [b"\x00" * 64, b"\xff" * 64, b"\xff\xff\xff\xff" + bytes(60), framed(b"no entry")])
def test_what_a_crash_leaves_at_the_end_is_no_entry(path: Path, tail: bytes) -> None:
    content = written(path)
    path.write_bytes(content + tail)
    assert loaded(path) == ENTRIES


@pytest.mark.usefixtures("no_fsync")
def test_a_bit_that_flips_ends_the_log_before_its_entry(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    content = written(path)
    ends = ends_of(content)
    for position in range(8 * len(content)):
        flipped = bytearray(content)
        flipped[position // 8] ^= 1 << position % 8
        path.write_bytes(flipped)
        assert loaded(path) == ENTRIES[: sum(end <= position // 8 for end in ends[1:])]
    assert caplog.messages[-1].endswith("bytes after step 3 are broken and were left out")


@pytest.mark.parametrize(
    "values",
    [
        3,
        [],
        ["header", 1, "a", [], []],
        [b"header", 1, "a", [], []],
        [ENTRIES[1].header.encoded, 1, "a", 5, []],
        [ENTRIES[1].header.encoded, 1, "a", []],
        [ENTRIES[2].header.encoded, 1, "a", [], []],  # step 1 is missing
        [chain_of(2, run="another")[1].header.encoded, 1, "a", [], []],
    ],
)
def test_a_whole_frame_that_is_not_the_next_entry_ends_the_log(path: Path, values: object) -> None:
    LogFile(path).append(ENTRIES[:1])
    path.write_bytes(path.read_bytes() + framed(msgpack.packb(values)))
    assert loaded(path) == ENTRIES[:1]


def test_an_entry_within_an_entry_never_surfaces(path: Path) -> None:
    """What a peer writes into its header is not found where a longer write that failed is written over."""
    log = LogFile(path)
    log.append(ENTRIES[:1])
    forged = replace(ENTRIES[1].header, run="forged")
    frame = framed(msgpack.packb([forged.encoded, 0, "x", [], []]))
    garbage = framed(b"x" * 500 + frame * 20)[:-1]
    path.write_bytes(path.read_bytes() + garbage)
    log.append(ENTRIES[1:2])
    assert loaded(path) == ENTRIES[:2]
    assert frame not in path.read_bytes()


def test_frames_end_at_the_first_broken_one() -> None:
    frames = framed(b"") + framed(b"one") + framed(b"two")
    assert list(unframed(frames)) == [b"", b"one", b"two"]
    assert list(unframed(frames[:-1])) == [b"", b"one"]
    assert list(unframed(frames[1:])) == []
    assert list(unframed(b"")) == []


def test_a_full_disk_leaves_the_entries_before(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 64) as disk:
        entries = [Entry(entry.header, CERTIFICATE) for entry in chain_of(200, voters=("v" * 2000,))]
        log = LogFile(disk / "log")
        (disk / "other").write_bytes(bytes(20_000))
        with pytest.raises(StorageError) as caught:
            for entry in entries:
                log.append([entry])
        assert str(caught.value) == f"{disk}/log: could not be saved, the disk is full; free some space"
        assert log.tip is not None
        count = log.tip.step + 1
        assert 5 < count < 100
        assert loaded(disk / "log") == entries[:count]
        for write in (lambda: log.append(entries[count : count + 50]), lambda: log.replace(entries)):
            with pytest.raises(StorageError, match="the disk is full"):
                write()
            assert loaded(disk / "log") == entries[:count]
        (disk / "other").unlink()
        log.append(entries[count : count + 1])
        assert loaded(disk / "log") == entries[: count + 1]


def test_a_place_that_cannot_be_read_or_written_says_so(tmp_path: Path) -> None:
    (tmp_path / "log").mkdir()
    with pytest.raises(StorageError, match=r"log: could not be read \(Is a directory\); "):
        loaded(tmp_path / "log")
    with pytest.raises(StorageError, match=r"none/log: could not be saved \(No such file or directory\); "):
        LogFile(tmp_path / "none" / "log").append(ENTRIES)


WRITER = """
    import sys
    from pathlib import Path
    from averaging.log.log_file import LogFile
    from averaging.log.header import Entry, Certificate, Ballot, Header, Kind

    log, voters = LogFile(Path(sys.argv[1])), ("v" * 5000,)
    entries, ballot = log.load(), Ballot(0, "c.0")
    step, previous = (entries[-1].header.step, entries[-1].header.digest) if entries else (-1, "")
    while True:
        batch = []
        for _ in range(3):
            step += 1
            header = Header("run", step, Kind.UPDATE, previous, ballot, voters=voters)
            batch.append(Entry(header, Certificate(ballot)))
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
