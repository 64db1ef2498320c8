"""Processes that tests fork have nothing in common: what happens to one of them is no other's business."""

import gc
import os
import signal
import sys
import time
from multiprocessing.synchronize import SemLock
from pathlib import Path

import psutil
import pytest

from tests.support.forked import run_together, start_function
from tests.support.waiting import PATIENCE, wait_until


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


def fails_and_leaves_a_child(folder: Path) -> None:
    """End with status 3, while a process that it has forked goes on."""
    child = os.fork()
    if child == 0:
        time.sleep(600)
    (folder / "child").write_text(str(child))
    sys.exit(3)


def test_a_process_that_fails_leaves_none_behind(tmp_path: Path):
    with pytest.raises(AssertionError, match="--- failing"):
        run_together(tmp_path, {"failing": (fails_and_leaves_a_child, (tmp_path,))})
    child = int((tmp_path / "child").read_text())

    def is_gone() -> bool:
        try:
            return psutil.Process(child).status() == psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return True

    wait_until(is_gone, "end of the child")
