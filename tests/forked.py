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
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

import hivemind.utils.asyncio
from hivemind.utils.mpfuture import MPFuture

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
        environment: what to add to the environment of this process; too late for what is read while importing.
    """
    return _start(run_sahaj, (list(map(str, arguments)),), out, err or out, environment, cwd or Path.cwd())


def start_function(function: Callable[..., None], *arguments: object, out: Path) -> Forked:
    """Call a function of a module, in a process that has no threads yet; what it says and raises goes to `out`."""
    return _start(function, arguments, out, out, {}, Path.cwd())


def runs_well(function: Callable[..., None], folder: Path, *arguments: object, patience: float = 90.0) -> None:
    """Call `function(folder, *arguments)` as above, and see that it ends with status 0 within so many seconds.

    hivemind forks its processes: from one that has no threads, not from that of pytest.
    """
    said = folder / "said"
    process = start_function(function, folder, *arguments, out=said)
    try:
        status = process.wait(patience)
    except subprocess.TimeoutExpired:
        status = -1
    finally:
        process.kill()
    assert status == 0, said.read_text()


def _start(
    function: Callable[..., None],
    arguments: tuple[object, ...],
    out: Path,
    err: Path,
    environment: Mapping[str, str],
    cwd: Path,
) -> Forked:
    for file in {out, err}:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"")
    whole = os.environ | dict(environment)
    process = _forks.Process(target=_become, args=(function, arguments, str(out), str(err), whole, str(cwd)))
    process.start()
    forked = Forked(process)
    atexit.register(forked.kill)  # else the end of this process waits for it
    return forked


def _become(
    function: Callable[..., None],
    arguments: tuple[object, ...],
    out: str,
    err: str,
    environment: dict[str, str],
    cwd: str,
) -> None:
    """In the new process: have a session, streams and an environment of its own."""
    os.setsid()
    multiprocessing.set_start_method("fork", force=True)  # as in any process that is not forked from this server
    _have_own_locks()
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
    function(*arguments)


def _have_own_locks() -> None:
    """Else a peer that is killed while it holds one of hivemind's locks would hang all that are forked after it.

    hivemind makes them when it is imported; of a semaphore that is inherited by forking there is only one.
    """
    MPFuture.reset_backend()
    hivemind.utils.asyncio._AsyncContextWrapper.EXECUTOR_LOCK = multiprocessing.Lock()


def run_sahaj(arguments: list[str]) -> None:
    """Be `sahaj` with these arguments, in a process of its own."""
    sys.argv = ["sahaj", *arguments]
    from app import cli, starting

    starting.PROCESS_STARTED = time.time()
    cli.main()
