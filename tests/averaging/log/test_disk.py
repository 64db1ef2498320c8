"""What a peer finds after a restart leads to the state that it had, or to an earlier one, and never to a false one."""

import contextlib
import os
import stat
from collections.abc import Callable, Sequence
from pathlib import Path
from unittest.mock import Mock

import pytest

from averaging.log import entry_file
from averaging.log.disk import Disk, Journal
from averaging.log.entry_file import Record, entries_after, line_of
from averaging.log.header import Ballot, Gap, HeaderKind, SnapshotName
from swarm.errors import StorageError
from tests.averaging.log.course import LIMIT, Course, state
from tests.averaging.log.headers import FIRST


def test_an_empty_folder_has_nothing(tmp_path: Path) -> None:
    assert Disk(tmp_path / "peer" / "new", LIMIT).load() is None


def test_all_is_found_again(course: Course) -> None:
    for replayed in ([7, 8], []):
        found = course.restarted()
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
    course.disk.save_proposal(ballot, accepted, b"contacts")
    assert course.restarted().accepted == (ballot, accepted, b"contacts")
    course.drop(accepted.chunks[1])  # nobody votes for what it does not hold
    assert course.restarted().accepted is None
    course.update(9)
    course.add()
    found = course.restarted()
    assert (found.entries[-1].header.step, found.accepted) == (9, None)


def test_what_names_something_is_written_after_it(course: Course, monkeypatch: pytest.MonkeyPatch) -> None:
    on_disk: list[str] = []
    fsync = os.fsync

    def noted(file: int) -> None:
        fsync(file)
        on_disk.append(Path(f"/proc/self/fd/{file}").readlink().name.split(".partial")[0].strip("."))

    monkeypatch.setattr(os, "fsync", noted)
    chunks = sorted(course.update(9).chunks)
    course.disk.save_proposal(FIRST, course.next(HeaderKind.UPDATE))
    assert sorted(on_disk[: len(chunks)]) == chunks  # together, in no order
    assert on_disk[len(chunks) :] == ["contents", "accepted", "peer"]
    on_disk.clear()
    course.add()
    snapshot = course.snapshots[-1].digest
    assert on_disk[0] == "log"
    assert on_disk.index(snapshot) < on_disk.index("snapshots")


@pytest.mark.parametrize("chunk", [0, 1])
def test_the_log_ends_before_an_update_that_is_missing(course: Course, chunk: int) -> None:
    course.drop(course.entries[8].header.chunks[chunk])
    found = course.restarted()
    assert found.entries == tuple(course.entries[:8])
    assert [entry.header.step for entry in found.replay] == [7]
    course.entries.pop()
    course.update(8)
    course.add()  # the log goes on from there
    assert course.restarted().entries == tuple(course.entries)


def test_an_update_before_the_newest_snapshot_is_not_needed(course: Course) -> None:
    for step in range(1, 7):
        course.drop(course.entries[step].header.chunks[0])
    assert course.restarted().entries == tuple(course.entries)


def test_without_its_newest_snapshot_the_log_starts_from_another(course: Course) -> None:
    """A chunk, and then a manifest, is missing."""
    chunk, *_ = (digest for digest in course.disk.contents.digests if _is_parameters(course, digest, 6))
    course.drop(chunk)
    found = course.restarted()
    assert (found.base, found.snapshots) == (course.snapshots[1], tuple(course.snapshots[:2]))
    assert [entry.header.step for entry in found.replay] == [4, 5, 6, 7, 8]
    course.drop(course.snapshots[1].digest)
    found = course.restarted()
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
    assert found.entries == tuple(course.entries)
    assert (found.base, [entry.header.step for entry in found.replay]) == (back, [10])
    assert found.snapshots[-1] == course.snapshots[-1]
    course.drop(course.snapshots[1].digest)
    older = Disk(course.folder, LIMIT).load()
    assert older is None or older.entries[-1].header.step < 9


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
    assert found.gaps == gaps
    if crash_before == "the log":
        assert found.entries == tuple(course.entries)
    else:
        assert (found.entries[-3:], found.base, found.replay) == (tuple(entries), name, ())
        entered, _ = entries_after(course.folder / "log", None, 99)
        assert entered[:9] == course.entries  # they keep their credit


def test_gaps_are_found_again_until_they_are_filled(course: Course) -> None:
    gaps = (Gap(3, "digest", 1), Gap(9, "another", 5))
    for told in (gaps, None, gaps[1:], ()):
        course.disk.credit(course.entries[1:3], told)
        expected = gaps if told is None else told
        for _ in range(4):  # with a snapshot in between
            found = course.restarted()
            assert found.gaps == expected
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
    at = content.index(line_of(Record(course.entries[lost], is_applied=True)))
    content[at : at + 20] = bytes(20)
    path.write_bytes(content)
    gaps = (Gap(lost, header.digest, lost - 1),) if lost else ()
    for _ in range(2):
        found = course.restarted()
        assert found.base.step == 6 and found.gaps == gaps
        assert found.entries == tuple(course.entries[first : last + 1])
    others = course.entries[:lost] + course.entries[lost + 1 :]
    for entry in course.entries[last + 1 :]:
        course.update(entry.header.step)
    course.disk.append(course.entries[last + 1 :])  # others tell what came then
    assert course.restarted().entries == tuple(course.entries[first:])
    assert entries_after(path, None, 99)[0][: len(others)] == others


def test_how_long_a_quorum_was_missing_counts_for_the_newest_step_alone(course: Course) -> None:
    for instance, seconds in ((course.entries[-1].header.digest, 40.5), (course.entries[-2].header.digest, 0.0)):
        course.disk.save_waited(instance, 40.5)
        assert course.restarted().waited == seconds


@pytest.mark.parametrize("name", ["accepted", "waited", "snapshots"])
def test_a_small_file_of_another_version_is_refused(course: Course, name: str) -> None:
    (course.folder / name).write_bytes(line_of([1, "another", 2, 3]))
    with pytest.raises(StorageError, match=f"{name}: written by another version of this program"):
        course.restarted()


def test_a_gap_that_is_found_later_is_on_the_disk_at_once(course: Course) -> None:
    course.disk.credit([], gaps := (Gap(3, "digest", 1),))
    found = course.restarted()
    assert (found.gaps, found.snapshots) == (gaps, tuple(course.snapshots))


def test_headers_that_were_missing_are_not_taken_for_proven(course: Course) -> None:
    course.disk.save_snapshots(course.snapshots[2:], since=5)
    course.disk.credit(course.entries[2:5])
    assert course.restarted().entries == tuple(course.entries[5:])


def test_a_restart_reads_only_what_it_needs_of_a_long_log(course: Course, monkeypatch: pytest.MonkeyPatch) -> None:
    course.disk.save_snapshots(course.snapshots[1:], since=2)
    read = Mock(side_effect=entry_file.value_of)
    monkeypatch.setattr(entry_file, "value_of", read)
    assert course.restarted().entries == tuple(course.entries[2:])
    assert read.call_count == 7


def test_where_what_it_needs_is_lost_it_reads_all(course: Course) -> None:
    course.disk.save_snapshots(course.snapshots[1:], since=2)
    for name in course.snapshots[1:]:
        course.drop(name.digest)
    found = course.restarted()
    assert (found.entries, found.base) == (tuple(course.entries), course.snapshots[0])  # the genesis header names it


def test_what_nothing_names_is_deleted_when_the_log_is_loaded(course: Course) -> None:
    accepted = course.next(HeaderKind.UPDATE, parts=(course.update(9),))
    course.disk.save_proposal(FIRST, accepted)
    course.disk.save_snapshots(course.snapshots[1:], 0)
    kept = {one for entry in course.entries[4:] for one in entry.header.chunks}.union(accepted.chunks)
    course.update(99)
    found = course.restarted()
    assert found.accepted is not None
    held = set(course.disk.contents.digests)
    assert kept <= held and not held & set(course.update(99).chunks)
    assert course.restarted() == found


def test_a_write_that_failed_comes_before_those_after_it(tmp_path: Path) -> None:
    done: list[int] = []
    fails = {1}

    def work(number: int) -> Callable[[Disk], None]:
        def write(disk: Disk) -> None:
            if number in fails:
                raise StorageError("the disk is full")
            done.append(number)

        return write

    journal = Journal(Disk(tmp_path / "peer", 0))
    journal.write(work(0))
    for number in (1, 2):
        with pytest.raises(StorageError):
            journal.write(work(number))
    assert done == [0] and journal.is_behind
    with pytest.raises(StorageError):
        journal.catch_up()
    fails.clear()
    journal.write(work(3))
    assert done == [0, 1, 2, 3] and not journal.is_behind


def test_without_a_disk_nothing_is_kept() -> None:
    journal = Journal(None)
    journal.write(lambda disk: pytest.fail("there is no disk"))
    assert not journal.is_behind
