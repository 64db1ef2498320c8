"""Peers of a benchmark on hosts of their own: they begin one after the other, and all through the first one."""

import json
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from benchmarks.support.hosted_peer import HostedTask
from swarm.errors import SahajError
from tests.support.forked import Forked, start_function
from tests.support.hosts import Hosts

START = 60.0  # seconds that a peer may take to start
PATIENCE = 3600.0  # seconds for all that it does
POLL = 0.1  # seconds


class BenchmarkFailed(SahajError):
    """A peer did not do what it was asked."""


T = TypeVar("T", bound=HostedTask)


def start_peers(
    folder: Path, hosts: Hosts, work: Callable[[T], None], task_of: Callable[[HostedTask], T], peers: list[Forked]
) -> list[T]:
    """Start one on each host; they are added to `peers` as they begin.

    Args:
        folder: for their files.
        hosts: by name, in the order of the peers.
        work: what a peer does.
        task_of: adds to a task what this benchmark asks for.
        peers: whom the caller has to end, whatever happens.

    Raises:
        BenchmarkFailed: the first one does not start.
    """
    tasks: list[T] = []
    known: tuple[str, ...] = ()
    for number, (name, address) in enumerate(hosts.addresses.items()):
        task = task_of(HostedTask(str(folder), number, hosts.namespace(name), address, known))
        peers.append(start_function(work, task, out=task.file("said")))
        tasks.append(task)
        if not known:
            wait_among(tasks, peers, task.file("here").exists, START)
            known = tuple(json.loads(task.file("here").read_text())[1])
    return tasks


def wait_among(
    tasks: Sequence[HostedTask], peers: Sequence[Forked], happened: Callable[[], bool], seconds: float
) -> None:
    """Until it has happened.

    Raises:
        BenchmarkFailed: it has not in time, or a peer has ended before.
    """
    deadline = time.monotonic() + seconds
    while not happened():
        for task, peer in zip(tasks, peers, strict=True):
            if peer.poll() or time.monotonic() > deadline:
                raise BenchmarkFailed(f"nothing came of it; peer {task.number} ({peer.poll()}) said: {task.last_words}")
        time.sleep(POLL)


def has_all(tasks: Sequence[HostedTask], step: int) -> bool:
    """Whether all of them have applied that global step."""
    return all(any(one["step"] == step for one in task.events("has")) for task in tasks)


def seconds_of_round(tasks: Sequence[HostedTask], step: int) -> float:
    """From its beginning to the last peer that has all of it; the coordinator is the first one."""
    began = next(one["at"] for one in tasks[0].events("met") if one["step"] == step)
    ends = [one["at"] for task in tasks for one in task.events("has") if one["step"] == step]
    return round(max(ends) - began, 2)


def wait_for(task: HostedTask, peer: Forked) -> None:
    """Until it has done its task.

    Raises:
        BenchmarkFailed: it ended otherwise, or not in time.
    """
    try:
        status = peer.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        status = None
    if status != 0:
        raise BenchmarkFailed(f"peer {task.number} ended with {status}: {task.last_words}")
