"""Processes that tests fork have nothing in common: what happens to one of them is no other's business."""

import gc
import os
import signal
from multiprocessing.synchronize import SemLock
from pathlib import Path

from tests.forked import start_function
from tests.waiting import PATIENCE


def dies_with_all_locks() -> None:
    """Take every lock that hivemind makes when it is imported, and die holding them."""
    for lock in import_time_locks():
        assert lock.acquire(timeout=PATIENCE)
    os.kill(os.getpid(), signal.SIGKILL)


def takes_all_locks() -> None:
    """Take them, if nobody else has them."""
    for lock in import_time_locks():
        assert lock.acquire(timeout=1.0), "somebody else has it"


def import_time_locks() -> list[SemLock]:
    """All semaphores of this process."""
    found = [one for one in gc.get_objects() if isinstance(one, SemLock)]
    assert found, "hivemind has no such locks any more: nothing needs to be renewed"
    return found


def test_a_killed_process_holds_no_lock_of_the_next(tmp_path: Path):
    killed = start_function(dies_with_all_locks, out=tmp_path / "killed.log")
    assert killed.wait(PATIENCE) == -signal.SIGKILL, (tmp_path / "killed.log").read_text()
    following = start_function(takes_all_locks, out=tmp_path / "following.log")
    assert following.wait(PATIENCE) == 0, (tmp_path / "following.log").read_text()
