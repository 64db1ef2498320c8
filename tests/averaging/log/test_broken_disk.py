"""A disk that is full, broken, or was cut off in the middle of a write leaves what was acknowledged before."""

from collections.abc import Callable
from pathlib import Path

import pytest

from averaging.log.disk import Disk
from averaging.log.header import HeaderKind, SnapshotName
from swarm.errors import StorageError
from tests.averaging.log.course import LIMIT, Course
from tests.averaging.log.headers import FIRST, header
from tests.swarm.disk_faults import killed_after, small_disk


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
    assert course.restarted().snapshots == tuple(course.snapshots)


def test_a_full_disk_leaves_what_was_there(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 256) as disk:
        course = Course(disk / "peer")
        with pytest.raises(StorageError, match="the disk is full; free some space") as caught:
            for _ in range(1000):
                course.add()
        assert str(caught.value).startswith(f"{disk}/peer/")
        count = len(course.entries)
        assert count > 5
        assert len(course.restarted().entries) in (count - 1, count)
        with pytest.raises(StorageError, match="accepted: could not be saved, the disk is full"):
            course.disk.save_proposal(FIRST, header(voters=("v" * 10_000,)))


WRITER = """
    import sys
    from pathlib import Path
    from averaging.log.header import HeaderKind
    from tests.averaging.log.headers import FIRST
    from tests.averaging.log.course import Course

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
