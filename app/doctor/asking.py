"""Looks at what needs torch and hivemind, in a process of its own: either may be broken, hang, or end the process."""

import gc
import multiprocessing
import os
import signal
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from app.doctor.results import TooLate
from swarm.errors import SahajError

ENDS_WITHIN = 3.0  # seconds for a process that is asked no more

T = TypeVar("T")


class Broken(SahajError):
    """What a library in that process, or its end, has told."""


class PeerProcess:
    """The process, which is started at once and ends with the block, killed if it hangs."""

    def __init__(self) -> None:
        fresh = multiprocessing.get_context("spawn")
        self._questions, theirs = fresh.Pipe()
        self._process = fresh.Process(target=_answer, args=(theirs,), daemon=True)
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # inherited: at Ctrl-C this process ends the other
        try:
            self._process.start()
        finally:
            signal.signal(signal.SIGINT, before)
        theirs.close()
        self._late = False

    def __enter__(self) -> "PeerProcess":
        return self

    def __exit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._questions.close()
        if error is None and not self._late:  # by itself: of one that is killed Python says that it leaks semaphores
            self._process.join(ENDS_WITHIN)
        self._process.kill()
        self._process.join()

    def ask(self, until: float, look: Callable[..., T], *arguments: Any) -> T:
        """What a function of a module returns there by `until`, in monotonic seconds.

        Raises:
            Broken: it has raised an error, or the process has ended.
            TooLate: there is no answer yet.
        """
        if self._late:  # what comes now answers an older question
            raise TooLate
        try:
            self._questions.send((look, arguments))
            if not self._questions.poll(max(0.0, until - time.monotonic())):
                self._late = True
                raise TooLate
            answer: T | Broken = self._questions.recv()
        except (EOFError, OSError):
            raise Broken(self._how_it_ended()) from None
        if isinstance(answer, Broken):
            raise answer
        return answer

    def _how_it_ended(self) -> str:
        self._process.join()
        status = self._process.exitcode or 0
        if status >= 0:
            return f"the process that loads it exited with status {status}"
        return f"the process that loads it was killed by {signal.Signals(-status).name}"


def _answer(questions: Connection) -> None:
    """Answer until the questions end, or this process does; what libraries print goes nowhere."""
    with Path(os.devnull).open("w") as nowhere:
        os.dup2(nowhere.fileno(), 1)
        os.dup2(nowhere.fileno(), 2)
    while True:
        try:
            look, arguments = questions.recv()
        except EOFError:
            gc.freeze()  # else Python takes seconds at the end to look through the modules of torch
            return
        try:
            answer = look(*arguments)
        except Exception as error:  # whatever a broken library raises
            answer = Broken(str(error) if isinstance(error, SahajError) else f"{type(error).__name__}: {error}")
        questions.send(answer)
