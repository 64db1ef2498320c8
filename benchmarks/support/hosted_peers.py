"""Peers of a benchmark on hosts of their own: they begin one after the other, and all through the first one."""

import json
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol, TypeVar

from swarm.errors import SahajError
from tests.support.forked import Forked, start_function
from tests.support.hosts import Hosts

START = 60.0  # seconds that a peer may take to start
PATIENCE = 3600.0  # seconds for all that it does
POLL = 0.1  # seconds


class BenchmarkFailed(SahajError):
    """A peer did not do what it was asked."""


class Task(Protocol):
    """What one peer is asked to do; once it is there it writes its id and its addresses to the file `here`."""

    @property
    def number(self) -> int:
        """Of the peer."""

    def file(self, name: str, number: int | None = None) -> Path:
        """A file of a peer."""


T = TypeVar("T", bound=Task)


def start_peers(
    hosts: Hosts, work: Callable[[T], None], task_of: Callable[[int, str, tuple[str, ...]], T], peers: list[Forked]
) -> list[T]:
    """Start one on each host; they are added to `peers` as they begin.

    Args:
        hosts: by name, in the order of the peers.
        work: what a peer does.
        task_of: makes its task from its number, the namespace of its host, and the addresses to join by.
        peers: whom the caller has to end, whatever happens.

    Raises:
        BenchmarkFailed: the first one does not start.
    """
    tasks: list[T] = []
    known: tuple[str, ...] = ()
    for number, name in enumerate(hosts.addresses):
        task = task_of(number, hosts.namespace(name), known)
        peers.append(start_function(work, task, out=task.file("said")))
        tasks.append(task)
        if not known:
            deadline = time.monotonic() + START
            while not task.file("here").exists():
                if time.monotonic() > deadline:
                    raise BenchmarkFailed(f"a peer did not start: {_last_words(task)}")
                time.sleep(POLL)
            known = tuple(json.loads(task.file("here").read_text())[1])
    return tasks


def wait_for(task: Task, peer: Forked) -> None:
    """Until it has done its task.

    Raises:
        BenchmarkFailed: it ended otherwise, or not in time.
    """
    try:
        status = peer.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        status = None
    if status != 0:
        raise BenchmarkFailed(f"peer {task.number} ended with {status}: {_last_words(task)}")


def _last_words(task: Task) -> str:
    return task.file("said").read_text()[-2000:]
