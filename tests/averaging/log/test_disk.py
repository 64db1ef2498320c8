"""What a peer finds after a restart leads to the state that it had, or to an earlier one, and never to a false one."""

import contextlib
import hashlib
import os
import stat
from collections.abc import Callable, Sequence
from pathlib import Path
from unittest.mock import Mock

import pytest
import torch

from averaging.log import codec
from averaging.log.disk import Disk, Found
from averaging.log.header import Ballot, Certificate, Entry, Gap, Header, HeaderKind, Part, SnapshotName
from averaging.log.log_file import entries_after
from averaging.log.snapshot import write_snapshot
from averaging.log.state import State
from swarm.errors import StorageError
from tests.averaging.log.headers import FIRST, header
from tests.averaging.log.killed import killed_after
from tests.averaging.log.small_disk import small_disk

LIMIT = 0  # bytes of memory: everything is read from the folder


def content_of(step: int, chunk: int) -> bytes:
    return f"chunk {chunk} of step {step}".encode()


def named(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def state(step: int) -> State:
    made = State(step, step, torch.full((10,), float(step)), (torch.full((10,), 0.1), torch.full((10,), 0.2)))
    codec.rebase(made)
    return made


class Course:
    """A peer that writes down a run: a snapshot at the beginning and after every third step."""

    def __init__(self, folder: Path, run: str = "run"):
        self.folder, self.run, self.disk = folder, run, Disk(folder, LIMIT)
        self.entries: list[Entry] = []
        self.snapshots = [self.snapshot(0, "")]
        self.add(HeaderKind.GENESIS, snapshot=self.snapshots[0])
        self.disk.save_snapshots(self.snapshots, 0)

    def snapshot(self, step: int, after: str) -> SnapshotName:
        return write_snapshot(state(step), self.run, after, self.disk.contents.put).name

    def update(self, step: int) -> Part:
        """Its chunks are in the store."""
        contents = [content_of(step, chunk) for chunk in range(2)]
        for content in contents:
            self.disk.contents.put(named(content), content)
        return Part("a.0", tuple(map(named, contents)))

    def next(self, kind: HeaderKind, **fields: object) -> Header:
        before = self.entries[-1].header if self.entries else None
        step, previous = (before.step + 1, before.digest) if before else (0, "")
        return header(step, previous, run=self.run, kind=kind, **fields)

    def add(self, kind: HeaderKind = HeaderKind.UPDATE, **fields: object) -> None:
        if kind is HeaderKind.UPDATE:
            fields["parts"] = (self.update(len(self.entries)),)
        self.entries.append(Entry(self.next(kind, **fields), Certificate(FIRST, ("a.0",))))
        self.disk.append(self.entries[-1:])
        step = self.entries[-1].header.step
        if kind is HeaderKind.UPDATE and step % 3 == 0:
            self.snapshots.append(self.snapshot(step, self.entries[-1].header.digest))
            self.disk.save_snapshots(self.snapshots, 0)

    def restarted(self) -> Found | None:
        self.disk = Disk(self.folder, LIMIT)
        return self.disk.load()

    def drop(self, digest: str) -> None:
        (self.folder / "contents" / digest).unlink()


@pytest.fixture
def course(tmp_path: Path) -> Course:
    """Eight steps."""
    made = Course(tmp_path / "peer")
    for _ in range(8):
        made.add()
    return made


def test_an_empty_folder_has_nothing(tmp_path: Path) -> None:
    assert Disk(tmp_path / "peer" / "new", LIMIT).load() is None


def test_all_is_found_again(course: Course) -> None:
    for replayed in ([7, 8], []):
        found = course.restarted()
        assert found is not None
        assert found.entries == tuple(course.entries)
        assert found.snapshots == tuple(course.snapshots)
        assert found.base == course.snapshots[-1]
        assert [entry.header.step for entry in found.replay] == replayed
        assert found.accepted is None
        course.add()


def test_others_may_not_read_anything(course: Course) -> None:
    course.disk.save_proposal(FIRST, course.next(HeaderKind.UPDATE))
    for path in (course.folder, *course.folder.rglob("*")):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600)


def test_the_accepted_header_is_found_while_it_is_the_next_one(course: Course) -> None:
    accepted, ballot = course.next(HeaderKind.UPDATE, parts=(course.update(9),)), Ballot(5, "b.1")
    course.disk.save_proposal(Ballot(4, "c.0"), course.next(HeaderKind.UPDATE))
    course.disk.save_proposal(ballot, accepted)
    found = course.restarted()
    assert found is not None
    assert found.accepted == (ballot, accepted)
    course.drop(accepted.chunks[1])  # nobody votes for what it does not hold
    found = course.restarted()
    assert found is not None
    assert found.accepted is None
    course.update(9)
    course.add()
    found = course.restarted()
    assert found is not None
    assert (found.entries[-1].header.step, found.accepted) == (9, None)


def test_what_names_something_is_written_after_it(course: Course, monkeypatch: pytest.MonkeyPatch) -> None:
    on_disk: list[str] = []
    fsync = os.fsync

    def noted(file: int) -> None:
        on_disk.append(Path(f"/proc/self/fd/{file}").readlink().name.split(".partial")[0].strip("."))
        fsync(file)

    monkeypatch.setattr(os, "fsync", noted)
    chunks = sorted(course.update(9).chunks)
    course.disk.save_proposal(FIRST, course.next(HeaderKind.UPDATE))
    assert on_disk == [*chunks, "contents", "accepted", "peer"]
    on_disk.clear()
    course.add()
    snapshot = course.snapshots[-1].digest
    assert on_disk[0] == "log"
    assert on_disk.index(snapshot) < on_disk.index("snapshots")


@pytest.mark.parametrize("chunk", [0, 1])
def test_the_log_ends_before_an_update_that_is_missing(course: Course, chunk: int) -> None:
    course.drop(course.entries[8].header.chunks[chunk])
    found = course.restarted()
    assert found is not None
    assert found.entries == tuple(course.entries[:8])
    assert [entry.header.step for entry in found.replay] == [7]
    course.entries.pop()
    course.update(8)
    course.add()  # the log goes on from there
    found = course.restarted()
    assert found is not None
    assert found.entries == tuple(course.entries)


def test_an_update_before_the_newest_snapshot_is_not_needed(course: Course) -> None:
    for step in range(1, 7):
        course.drop(course.entries[step].header.chunks[0])
    found = course.restarted()
    assert found is not None
    assert found.entries == tuple(course.entries)


def test_without_its_newest_snapshot_the_log_starts_from_another(course: Course) -> None:
    """A chunk, and then a manifest, is missing."""
    chunk, *_ = (digest for digest in course.disk.contents.digests if _is_parameters(course, digest, 6))
    course.drop(chunk)
    found = course.restarted()
    assert found is not None
    assert (found.base, found.snapshots) == (course.snapshots[1], tuple(course.snapshots[:2]))
    assert [entry.header.step for entry in found.replay] == [4, 5, 6, 7, 8]
    course.drop(course.snapshots[1].digest)
    found = course.restarted()
    assert found is not None
    assert (found.base.step, len(found.replay)) == (0, 8)
    course.drop(course.snapshots[0].digest)
    with pytest.raises(StorageError, match="no whole snapshot is left for the 9 entries"):
        course.restarted()  # no new run over the log of the old one


def _is_parameters(course: Course, digest: str, step: int) -> bool:
    return course.disk.contents.get(digest) == state(step).parameters.numpy().tobytes()


def test_a_rollback_starts_from_its_snapshot(course: Course) -> None:
    """Updates before it are not needed, nor is the snapshot that it undid."""
    back = SnapshotName(len(course.entries), course.snapshots[1].digest)  # named by the step of the rollback
    course.add(HeaderKind.ROLLBACK, snapshot=back)
    course.snapshots = [course.snapshots[2], back]  # what the protocol keeps
    course.disk.save_snapshots(course.snapshots, 0)
    course.add(HeaderKind.RESET)
    for step in range(1, 9):
        course.drop(course.entries[step].header.chunks[0])
    found = course.restarted()
    assert found is not None
    assert found.entries == tuple(course.entries)
    assert (found.base, [entry.header.step for entry in found.replay]) == (back, [10])
    assert found.snapshots[-1] == course.snapshots[-1]
    course.drop(course.snapshots[1].digest)
    found = course.restarted()
    assert found is None or found.entries[-1].header.step < 9


def test_a_snapshot_of_another_chain_is_no_base(course: Course, tmp_path: Path) -> None:
    """Only the log was brought back from somewhere else."""
    other = Course(tmp_path / "other", run="another")
    for _ in range(8):
        other.add()
    (course.folder / "log").unlink()
    course.disk = Disk(course.folder, LIMIT)
    course.disk.append(other.entries)
    for step in range(1, 9):
        course.update(step)
    with pytest.raises(StorageError, match="no whole snapshot"):
        course.restarted()


@pytest.mark.parametrize("crash_before", ["nothing", "the log", "the last names"])
def test_a_snapshot_that_was_loaded_is_taken_over_whole(
    course: Course, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, crash_before: str
) -> None:
    """Whenever the power goes, the disk leads to a state: that of the old log, or the one that was loaded."""
    entries, name, gaps = course.entries[4:7], course.snapshots[2], (Gap(3, "digest", 1),)
    with monkeypatch.context() as patched, contextlib.suppress(RuntimeError):
        calls = iter(range(3))

        def save(start: int, names: Sequence[SnapshotName]) -> None:
            if next(calls) == 1 and crash_before == "the last names":
                raise RuntimeError("power cut")
            Disk._save_snapshots(course.disk, start, names)

        patched.setattr(course.disk, "_save_snapshots", save)
        if crash_before == "the log":
            patched.setattr(course.disk._log, "append", Mock(side_effect=RuntimeError("power cut")))
        course.disk.take_over(entries, name, gaps)
    found = course.restarted()
    assert found is not None
    if crash_before == "the log":
        assert (found.entries, found.gaps) == (tuple(course.entries), ())
    else:
        assert (found.entries[-3:], found.base, found.replay, found.gaps) == (tuple(entries), name, (), gaps)
        entered, _ = entries_after(course.folder / "log", None, 99)
        assert entered[:9] == course.entries  # they keep their credit


def test_gaps_are_found_again_until_they_are_filled(course: Course) -> None:
    gaps = (Gap(3, "digest", 1), Gap(9, "another", 5))
    for told in (gaps, None, gaps[1:], ()):
        course.disk.credit(course.entries[1:3], told)
        expected = gaps if told is None else told
        for _ in range(4):  # with a snapshot in between
            found = course.restarted()
            assert found is not None and found.gaps == expected
            assert found.entries == tuple(course.entries)
            course.add()
            course.disk.save_snapshots(course.snapshots[-1:], course.snapshots[-1].step)
            course.entries = course.entries[course.snapshots[-1].step - course.entries[0].header.step :]


@pytest.mark.parametrize("lost, first, last", [(7, 0, 6), (5, 6, 8), (0, 1, 8)])
def test_an_entry_that_the_disk_has_lost_costs_no_more_than_need_be(
    course: Course, lost: int, first: int, last: int
) -> None:
    """What follows is kept for its credit, also where the log has to go on from before; and what is lost is a gap."""
    header, path = course.entries[lost].header, course.folder / "log"
    content = bytearray(path.read_bytes())
    at = content.index(header.encoded)
    content[at : at + 20] = bytes(20)
    path.write_bytes(content)
    gaps = (Gap(lost, header.digest, lost - 1),) if lost else ()
    for _ in range(2):
        found = course.restarted()
        assert found is not None and found.base.step == 6 and found.gaps == gaps
        assert found.entries == tuple(course.entries[first : last + 1])
    others = course.entries[:lost] + course.entries[lost + 1 :]
    for entry in course.entries[last + 1 :]:
        course.update(entry.header.step)
    course.disk.append(course.entries[last + 1 :])  # others tell what came then
    found = course.restarted()
    assert found is not None and found.entries == tuple(course.entries[first:])
    assert entries_after(path, None, 99)[0][: len(others)] == others


def test_how_long_a_quorum_was_missing_counts_for_the_newest_step_alone(course: Course) -> None:
    for instance, seconds in ((course.entries[-1].header.digest, 40.5), (course.entries[-2].header.digest, 0.0)):
        course.disk.save_waited(instance, 40.5)
        found = course.restarted()
        assert found is not None and found.waited == seconds


def test_a_gap_that_is_found_later_is_on_the_disk_at_once(course: Course) -> None:
    course.disk.credit([], gaps := (Gap(3, "digest", 1),))
    found = course.restarted()
    assert found is not None and (found.gaps, found.snapshots) == (gaps, tuple(course.snapshots))


def test_headers_that_were_missing_are_not_taken_for_proven(course: Course) -> None:
    course.disk.save_snapshots(course.snapshots[2:], since=5)
    course.disk.credit(course.entries[2:5])
    found = course.restarted()
    assert found is not None and found.entries == tuple(course.entries[5:])


def test_a_restart_reads_only_what_it_needs_of_a_long_log(course: Course, monkeypatch: pytest.MonkeyPatch) -> None:
    course.disk.save_snapshots(course.snapshots[1:], since=2)
    decode = Mock(side_effect=Header.decode)
    monkeypatch.setattr(Header, "decode", decode)
    found = course.restarted()
    assert found is not None
    assert found.entries == tuple(course.entries[2:])
    assert decode.call_count == 7


def test_where_what_it_needs_is_lost_it_reads_all(course: Course) -> None:
    course.disk.save_snapshots(course.snapshots[1:], since=2)
    for name in course.snapshots[1:]:
        course.drop(name.digest)
    found = course.restarted()
    assert found is not None
    assert (found.entries, found.base) == (tuple(course.entries), course.snapshots[0])  # the genesis header names it


def test_what_nothing_names_is_deleted_when_the_log_is_loaded(course: Course) -> None:
    accepted = course.next(HeaderKind.UPDATE, parts=(course.update(9),))
    course.disk.save_proposal(FIRST, accepted)
    course.disk.save_snapshots(course.snapshots[1:], 0)
    kept = {one for entry in course.entries[4:] for one in entry.header.chunks}.union(accepted.chunks)
    course.update(99)
    found = course.restarted()
    assert found is not None and found.accepted is not None
    held = set(course.disk.contents.digests)
    assert kept <= held and not held & set(course.update(99).chunks)
    assert course.restarted() == found


@pytest.mark.parametrize("name", ["snapshots", "accepted"])
@pytest.mark.parametrize(
    "change",
    [
        lambda content: b"",
        lambda content: bytes(len(content)),  # what a power cut leaves of a file that has its length only
        lambda content: content[:-1],
        lambda content: content[:9] + b"\xff" + content[10:],
    ],
    ids=["empty", "zeros", "cut", "garbled"],
)
def test_a_broken_file_counts_as_none(course: Course, name: str, change: Callable[[bytes], bytes]) -> None:
    course.disk.save_proposal(FIRST, course.next(HeaderKind.UPDATE, parts=(course.update(9),)))
    path = course.folder / name
    path.write_bytes(change(path.read_bytes()))
    found = course.restarted()
    assert found is not None
    if name == "accepted":
        assert found.accepted is None
        assert found.base.step == 6
    else:
        assert found.accepted is not None
        assert (found.base.step, len(found.replay)) == (0, 8)  # the genesis header names its own


def test_names_of_snapshots_that_are_none_are_left_out(course: Course) -> None:
    chunk = course.entries[1].header.chunks[0]
    false = [SnapshotName(6, chunk), SnapshotName(7, course.snapshots[2].digest), SnapshotName(6, "../log")]
    course.disk.save_snapshots([*course.snapshots, *false], 0)
    found = course.restarted()
    assert found is not None
    assert found.snapshots == tuple(course.snapshots)


def test_a_full_disk_leaves_what_was_there(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 256) as disk:
        course = Course(disk / "peer")
        with pytest.raises(StorageError, match="the disk is full; free some space") as caught:
            for _ in range(1000):
                course.add()
        assert str(caught.value).startswith(f"{disk}/peer/")
        count = len(course.entries)
        assert count > 5
        found = course.restarted()
        assert found is not None
        assert len(found.entries) in (count - 1, count)
        with pytest.raises(StorageError, match="accepted: could not be saved, the disk is full"):
            course.disk.save_proposal(FIRST, header(voters=("v" * 10_000,)))


WRITER = """
    import sys
    from pathlib import Path
    from averaging.log.header import HeaderKind
    from tests.averaging.log.headers import FIRST
    from tests.averaging.log.test_disk import Course, Disk

    folder = Path(sys.argv[1])
    if folder.exists():
        course = Course.__new__(Course)
        course.folder, course.run = folder, "run"
        found = course.restarted()
        course.entries, course.snapshots = list(found.entries), list(found.snapshots)
    else:
        course = Course(folder)
    while True:
        proposal = course.next(HeaderKind.UPDATE, parts=(course.update(len(course.entries)),))
        course.disk.save_proposal(FIRST, proposal)
        print("accepted", proposal.step)
        course.add()
        print("applied", proposal.step)
        gone = [one.header for one in course.entries[-12:-6]]
        course.disk.contents.forget(digest for header in gone for digest in header.chunks)
"""


def test_a_kill_at_any_moment_leaves_what_was_acknowledged(tmp_path: Path) -> None:
    for lines in (11, 40):  # after a proposal, and after a step
        said = [line.split() for line in killed_after(WRITER, lines, tmp_path / "peer")]
        applied = max(int(step) for what, step in said if what == "applied")
        accepted = max(int(step) for what, step in said if what == "accepted")
        found = Disk(tmp_path / "peer", LIMIT).load()
        assert found is not None
        tip = found.entries[-1].header.step
        assert tip in (applied, applied + 1)
        assert len(found.entries) == tip + 1
        if accepted > tip:
            assert found.accepted is not None
            assert found.accepted[1].step == accepted
