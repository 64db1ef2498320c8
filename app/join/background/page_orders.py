"""Asks the coordinator every few seconds whether this machine's person has paused it on their page.

The last answer stands while the coordinator is away. It is kept in the peer's folder, with the pass to ask with: a
machine that has left the run for a long pause asks all the same, and one that is started anew pauses from the start.
"""

import base64
import contextlib
import logging
import random
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

from pydantic import ValidationError

from app.join.coordinator_client import CoordinatorClient
from app.join.problems import JoinProblem, ProblemKind
from swarm.access.join_messages import Message
from swarm.access.pause_messages import OrderQuestion
from swarm.errors import StorageError
from swarm.files import write_file

logger = logging.getLogger(__name__)

FILE_NAME = "page.json"
ASK_EVERY = 10.0  # seconds
SELDOM = 60.0  # seconds between two questions of which none is answered
STOP_PATIENCE = 1.0  # seconds for a question under way

Ask = Callable[[OrderQuestion], bool]


class _File(Message):
    question: OrderQuestion
    paused: bool


class PageOrders:
    """Of one peer.

    Args:
        link: of the run.
        file: in which the last answer is kept.
    """

    def __init__(self, link: str, file: Path):
        self._link, self._is_followed, self._file = link, False, file
        self._question, self.is_paused = _read(file)
        self._ask: Ask = self._ask_at_link
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def admit(self, own: bytes, peer_id: str, file: Path, ask: Ask) -> None:
        """Ask with this pass from now on, and by `ask`.

        Args:
            file: of this peer; meanwhile another process may have become the one whose folder was free.
        """
        question = {"peer_id": peer_id, "pass": base64.b64encode(own)}
        self._question, self._file, self._ask = OrderQuestion.model_validate(question), file, ask
        self._write()

    def start(self) -> None:
        """Ask from now on, in a thread; hivemind's processes must have been forked before."""
        self._stop.clear()
        self._thread = threading.Thread(target=self._keep_asking, name="page orders", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Ask no more. Harmless when repeated."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(STOP_PATIENCE)
        self._thread = None

    @contextlib.contextmanager
    def asking(self) -> Iterator[None]:
        """Ask while the block runs, if this peer has ever been let in; no thread is left afterwards."""
        if self._question is not None and self.is_paused:
            self.ask()  # it may have been resumed while this machine was off
        self.start()
        try:
            yield
        finally:
            self.stop()

    def ask(self) -> bool:
        """Ask once; returns whether there was an answer. Whatever goes wrong, the last one stands."""
        if self._question is None:
            return False
        try:
            paused = self._ask(self._question)
        except JoinProblem as problem:
            if problem.kind is not ProblemKind.NOT_ALLOWED:
                logger.debug("not told what is ordered on the page: %s", problem)
                return False
            paused = False  # the run has another authority now: the order is that of a run that is no more
        except Exception as error:  # training goes on whatever it is
            logger.debug("not told what is ordered on the page: %r", error)
            return False
        if paused is not self.is_paused:
            self.is_paused = paused
            self._write()
        return True

    def _keep_asking(self) -> None:
        failures = 0
        while not self._stop.wait(pause(failures, random.random())):
            failures = 0 if self.ask() else failures + 1

    def _ask_at_link(self, question: OrderQuestion) -> bool:
        with CoordinatorClient(self._link, tolerance=float("inf")) as client:
            if not self._is_followed:
                client.run()  # follows a redirect, as joining does
                self._link, self._is_followed = client.base, True
            return client.pause_order(question)

    def _write(self) -> None:
        assert self._question is not None
        kept = _File(question=self._question, paused=self.is_paused)
        with contextlib.suppress(StorageError):  # a full disk costs the order at the next start, and nothing else
            write_file(self._file, kept.model_dump_json(by_alias=True), flush=False)


def kept_pass(file: Path) -> bytes | None:
    """The pass that a peer has asked with, if there is one."""
    question, _ = _read(file)
    return None if question is None else question.pass_


def pause(failures: int, luck: float) -> float:
    """Seconds until the next question: a little less than `ASK_EVERY`, and longer after failures in a row.

    Args:
        luck: from 0 to 1; spreads the peers that were started together.
    """
    return min(SELDOM, ASK_EVERY * 2.0 ** min(failures, 4)) * (0.8 + 0.2 * luck)


def _read(file: Path) -> tuple[OrderQuestion | None, bool]:
    try:
        found = _File.model_validate_json(file.read_bytes())
    except (OSError, ValidationError):  # a new peer, or a file that was cut short
        return None, False
    return found.question, found.paused
