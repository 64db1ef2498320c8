"""The peers of the benchmark: processes on hosts of their own."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.catching_up.worker import Task
from benchmarks.support.hosted_peers import BenchmarkFailed
from tests.support.forked import Forked

POLL = 0.2  # seconds


class Peers:
    """Processes on hosts of their own, and what they write down."""

    def __init__(self, tasks: Sequence[Task], processes: Sequence[Forked]):
        self.tasks, self._processes = tasks, processes

    def events(self, number: int, what: str) -> list[dict[str, Any]]:
        """See `Task.events`."""
        return self.tasks[number].events(what)

    def tip(self, number: int = 0) -> int:
        """The newest global step that a peer has applied."""
        return max((one["step"] for one in self.events(number, "applied")), default=0)

    def go(self) -> float:
        """Let those begin that wait; when that was."""
        Path(self.tasks[0].folder, "go").touch()
        return time.monotonic()

    def kill(self, number: int) -> None:
        """Without a word."""
        self._processes[number].kill_all()

    def wait(self, happened: Callable[[], bool], what: str, seconds: float, dead: Sequence[int] = ()) -> None:
        """Until it has happened.

        Raises:
            BenchmarkFailed: it has not in time, or a peer has ended.
        """
        deadline = time.monotonic() + seconds
        while not happened():
            for task, process in zip(self.tasks, self._processes, strict=True):
                if process.poll() is not None and task.number not in dead:
                    raise BenchmarkFailed(f"peer {task.number} has ended: {task.file('said').read_text()[-2000:]}")
            if time.monotonic() > deadline:
                raise BenchmarkFailed(f"no {what} within {seconds:.0f} s; the newest step is {self.tip()}")
            time.sleep(POLL)
