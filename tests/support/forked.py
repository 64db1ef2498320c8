"""`sahaj` in a process forked from one that has imported everything: on two cores imports take most of a start.

Each is a process with a session, standard streams and an environment of its own, as one that a shell has started, and
can be asked and killed like it. What a start from nothing takes is for the tests that run the program by its command.
"""

import atexit
import contextlib
import ctypes
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

from tests.support.waiting import PATIENCE, wait_until

PR_SET_PDEATHSIG = 1  # of <linux/prctl.h>
_forks = multiprocessing.get_context("forkserver")
_forks.set_forkserver_preload(["tests.support.forked_imports"])


class Forked:
    """A running `sahaj`, with what `subprocess.Popen` would answer."""

    def __init__(self, process: multiprocessing.process.BaseProcess, what: str):
        """`what`: it is, for people."""
        assert process.pid is not None, "it was started"
        self._process, self.pid, self._what = process, process.pid, what

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
            subprocess.TimeoutExpired: it has not, within so many seconds; without them, within those of all tests.
        """
        patience = PATIENCE if timeout is None else timeout
        self._process.join(patience)
        if self.returncode is None:
            raise subprocess.TimeoutExpired(self._what, patience)
        return self.returncode

    def send_signal(self, number: int) -> None:
        """To this process alone."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """As the power plug would, but for its helpers."""
        self.send_signal(signal.SIGKILL)

    def kill_all(self) -> None:
        """As the power plug would, with its helpers; they are gone then."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self.wait()

    def _has_session(self) -> bool:
        """Whether it can be told from those who started it; also if it has ended since."""
        with contextlib.suppress(ProcessLookupError):
            return os.getsid(self.pid) == self.pid
        return True


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


def start_function(
    function: Callable[..., None],
    *arguments: object,
    out: Path,
    err: Path | None = None,
    environment: Mapping[str, str] = MappingProxyType({}),
) -> Forked:
    """Call a function of a module in the same way: what it says goes to `out`, what it raises to `err`."""
    return _start(function, arguments, out, err or out, environment, Path.cwd())


def run_together(folder: Path, calls: Mapping[str, tuple[Callable[..., None], tuple[object, ...]]]) -> None:
    """Call functions at the same time as above, and see that all end with status 0; logs in `folder` have their names.

    hivemind forks its processes: from one that has no threads, not from that of pytest.
    """
    logs = {name: folder / f"{name}.log" for name in calls}
    with contextlib.ExitStack() as killed:
        processes = []
        for name, (function, arguments) in calls.items():
            processes.append(start_function(function, *arguments, out=logs[name]))
            killed.callback(processes[-1].kill_all)

        def statuses() -> list[int | None]:
            return [one.poll() for one in processes]

        def said() -> str:
            return "\n".join(f"--- {name}\n{log.read_text(errors='replace')}" for name, log in logs.items())

        wait_until(lambda: any(statuses()) or None not in statuses(), lambda: f"end of {', '.join(calls)}\n{said()}\n")
        assert not any(statuses()), said()


def runs_well(function: Callable[..., None], folder: Path, *arguments: object) -> None:
    """Call `function(folder, *arguments)` as above, alone."""
    run_together(folder, {"said": (function, (folder, *arguments))})


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
    named = " ".join([function.__name__, *map(str, arguments)])
    forked = Forked(process, named)
    atexit.register(forked.kill)  # else the end of this process waits for it
    wait_until(forked._has_session, f"session of {named}")  # before it, no helper of it could be signalled
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
    if sys.platform == "linux":  # it does not stay behind if the tests are ended the hard way
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
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
    from app import cli, startup

    startup.PROCESS_STARTED = time.time()
    cli.main()
