"""Asks the process that looks at torch and hivemind, and says how it ended if it did."""

import json
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from pydantic import BaseModel

from app.doctor.peer_process import PassSeen, PeerSeen, Question, TorchSeen
from app.doctor.results import TooLate
from app.join.problems import one_line
from swarm.errors import SahajError

START = "import sys; sys.path[:] = {!r}; from app.doctor.peer_process import main; main()"
T = TypeVar("T", bound=BaseModel)


class Broken(SahajError):
    """What a library in that process, or its end, has told."""


class PeerProcess:
    """The process, which is started at once and killed in the end."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            # the same packages as here: a folder `torch` where the command was typed is not torch
            [sys.executable, "-c", START.format(sys.path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            encoding="utf-8",
        )
        self._late = False
        self._answers: queue.SimpleQueue[str] = queue.SimpleQueue()
        threading.Thread(target=self._read, name="peer process", daemon=True).start()

    def __enter__(self) -> "PeerProcess":
        return self

    def __exit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()

    def torch(self, until: float) -> TorchSeen:
        """The device; `until` a time of the monotonic clock, as for all questions.

        Raises:
            Broken: torch cannot be used.
            TooLate: there is no answer yet.
        """
        return TorchSeen.model_validate(self._ask(Question(about="torch"), until))

    def peer(self, folder: Path, until: float) -> PeerSeen:
        """Who this machine is in a run, or would be; raises the same."""
        return PeerSeen.model_validate(self._ask(Question(about="peer", folders=[folder]), until))

    def passes(self, folders: Sequence[Path], run: str, authority: bytes, until: float) -> list[PassSeen]:
        """The passes kept in folders of peers; raises the same."""
        question = Question.model_construct(about="passes", folders=list(folders), run=run, authority=authority)
        return [PassSeen.model_validate(one) for one in self._ask(question, until)]

    def _ask(self, question: Question, until: float) -> Any:
        assert self._process.stdin is not None
        if self._late:  # what comes now answers an older question
            raise TooLate
        try:
            self._process.stdin.write(question.model_dump_json() + "\n")
            self._process.stdin.flush()
            line = self._answers.get(timeout=max(0.0, until - time.monotonic()))
        except queue.Empty:
            self._late = True
            raise TooLate from None
        except OSError:
            line = ""
        if not line:
            raise Broken(self._how_it_ended())
        told = json.loads(line)
        if "error" in told:
            raise Broken(one_line(told["error"]))
        return told["answer"]

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._answers.put(line)
        self._answers.put("")

    def _how_it_ended(self) -> str:
        status = self._process.wait()
        if status >= 0:
            return f"the process that loads it exited with status {status}"
        return f"the process that loads it was killed by {signal.Signals(-status).name}"
