"""Writes reach a disk in their order, however often it is full in between."""

from collections.abc import Callable
from pathlib import Path

import pytest

from averaging.log.disk import Disk
from averaging.log.journal import Journal
from swarm.errors import StorageError


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
