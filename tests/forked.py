"""`sahaj` in a process forked from one that has imported everything: on two cores imports take most of a start.

Each is a process with a session, standard streams and an environment of its own, as one that a shell has started, and
can be asked and killed like it. What a start from nothing takes is for the tests that run the program by its command.
"""

import atexit
import multiprocessing
import multiprocessing.process
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

_forks = multiprocessing.get_context("forkserver")
_forks.set_forkserver_preload(["tests.forked_imports"])


class Forked:
    """A running `sahaj`, with what `subprocess.Popen` would answer."""

    def __init__(self, process: multiprocessing.process.BaseProcess):
        assert process.pid is not None, "it was started"
        self._process, self.pid = process, process.pid

    @property
    def returncode(self) -> int | None:
        """The exit status, negative for a signal, or None while it runs."""
        return self._process.exitcode

    def poll(self) -> int | None:
        """The same."""
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait until it has ended.

        Raises:
            subprocess.TimeoutExpired: it has not, within so many seconds.
        """
        self._process.join(timeout)
        if self.returncode is None:
            raise subprocess.TimeoutExpired("sahaj", timeout or 0.0)
        return self.returncode

    def send_signal(self, number: int) -> None:
        """To this process alone."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """As the power plug would, but for its helpers."""
        self.send_signal(signal.SIGKILL)


def start_forked(
    arguments: Sequence[object],
    out: Path,
    err: Path | None = None,
    *,
    environment: Mapping[str, str] = MappingProxyType({}),
    cwd: Path | None = None,
) -> Forked:
    """Start `sahaj` with these arguments; it writes to the files `out` and `err` (by default also `out`).

    Args:
        environment: what to add to the environment of this process.
    """
    for file in {out, err or out}:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"")
    whole = os.environ | dict(environment)
    process = _forks.Process(
        target=_become, args=(list(map(str, arguments)), str(out), str(err or out), whole, cwd or Path.cwd())
    )
    process.start()
    forked = Forked(process)
    atexit.register(forked.kill)  # else the end of this process waits for it
    return forked


def _become(arguments: list[str], out: str, err: str, environment: dict[str, str], cwd: str | Path) -> None:
    """In the new process: be `sahaj`."""
    os.setsid()
    multiprocessing.set_start_method("fork", force=True)  # as in any process that is not forked from this server
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(cwd)
    for descriptor, path in ((0, os.devnull), (1, out), (2, err)):
        opened = os.open(path, os.O_RDWR | os.O_APPEND)
        os.dup2(opened, descriptor)
        os.close(opened)
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(write_through=True)  # type: ignore[union-attr]
    sys.argv = ["sahaj", *arguments]
    from app import cli

    cli.PROCESS_STARTED = time.time()
    cli.main()
