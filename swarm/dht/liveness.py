"""Watches that a peer's DHT answers, and ends the peer if it does not: it could do nothing, and would not say so.

Many places ask the DHT, and each would wait in its own way, some of them for ever.
"""

import threading
import time
from collections.abc import Callable
from signal import Signals
from typing import Any

import psutil
from hivemind.dht import DHT
from hivemind.dht.node import DHTNode
from hivemind.utils import get_logger

from swarm.language import _

logger = get_logger(__name__)

LOOK_EVERY = 1.0  # seconds
LATE = 15.0  # seconds of silence after which people are told
DHT_SILENCE = 60.0  # seconds of silence after which the DHT is given up
SLEPT = 2 * LOOK_EVERY  # a longer pause between two looks was one of this process, too


class Silence:
    """How long a DHT has not answered; it knows no clock but the times that it is given.

    Time in which the whole peer was frozen hardly counts: the DHT could not answer then.
    """

    def __init__(self, now: float):
        """`now` is in monotonic seconds, as everywhere."""
        self.seconds, self._looked = 0.0, now

    def look(self, now: float, *, answered: bool) -> str | None:
        """A message for people, or None. Call it every `LOOK_EVERY` seconds; `answered`: since the last call."""
        before, was_late = self.seconds, self.is_late
        self.seconds = 0.0 if answered else before + min(now - self._looked, SLEPT)
        self._looked = now
        if was_late and answered:
            return _("The DHT answers again, after {n} s.").format(n=f"{before:.0f}")
        if self.is_late and not was_late:
            return _("problem: {problem}; the program will stop if this lasts {n} s").format(
                problem=self, n=f"{DHT_SILENCE:.0f}"
            )
        return None

    @property
    def is_late(self) -> bool:
        """Whether it is silent long enough to tell people."""
        return self.seconds >= LATE

    @property
    def is_too_long(self) -> bool:
        """Whether the DHT is to be given up."""
        return self.seconds >= DHT_SILENCE

    def __str__(self) -> str:
        silent = _("the part of this program that finds other peers (the DHT) has not answered for {n} s")
        return silent.format(n=f"{self.seconds:.0f}")


class DHTWatch:
    """Asks the DHT in threads of its own until `stop`.

    If the DHT has ended, or is silent for too long, its processes are killed, `say` tells people, and `give_up` is
    called once. Commands to it are read and dropped, so that no thread waits for room in the pipe.
    """

    def __init__(self, dht: DHT, say: Callable[[str], None], give_up: Callable[[], None]):
        self._dht, self._say, self._give_up = dht, say, give_up
        # its libp2p daemon would not be found any more after its end, and would keep the port
        self._processes = [psutil.Process(dht.pid), *psutil.Process(dht.pid).children(recursive=True)]
        self._stopped, self._answered = threading.Event(), threading.Event()
        self._silence, self._ended = Silence(time.monotonic()), ""
        for target in (self._ask, self._watch):
            threading.Thread(target=target, name="dht-watch", daemon=True).start()

    @property
    def trouble(self) -> str:
        """What is wrong with the DHT now; empty if nothing is."""
        return self._ended or (str(self._silence) if self._silence.is_late else "")

    def stop(self) -> None:
        """Stop watching: from now on the DHT may end."""
        self._stopped.set()

    def _ask(self) -> None:
        while not self._stopped.wait(LOOK_EVERY):
            try:
                if self._dht.run_coroutine(_reaches_daemon, return_future=True).result(LATE):
                    self._answered.set()
            except Exception as error:
                logger.debug(f"the DHT does not answer: {error!r}")

    def _watch(self) -> None:
        while not self._stopped.wait(LOOK_EVERY):
            answered = self._answered.is_set()
            self._answered.clear()
            line = self._silence.look(time.monotonic(), answered=answered)
            self._ended = self._why_it_is_given_up()
            if self._ended:
                return self._end()
            if line:
                self._say(line)

    def _why_it_is_given_up(self) -> str:
        if not self._dht.is_alive():
            return describe_end(self._dht.exitcode)
        return str(self._silence) if self._silence.is_too_long else ""

    def _end(self) -> None:
        self._say(_("problem: {problem}; the program is stopping, so start it again").format(problem=self._ended))
        for process in self._processes:
            try:
                process.kill()
            except psutil.NoSuchProcess:
                continue
        self._dht.join()
        threading.Thread(target=self._dht.forget_commands, name="dht-forgotten", daemon=True).start()
        self._give_up()


def describe_end(status: int | None) -> str:
    """The message about a DHT process that ended with this status; a negative one is a signal."""
    how = f"was killed by {Signals(-status).name}" if status is not None and status < 0 else f"ended (status {status})"
    return f"the process of this peer's DHT {how}"


async def _reaches_daemon(_dht: Any, node: DHTNode) -> bool:
    try:
        await node.p2p._client.identify()
    except Exception as error:
        logger.debug(f"libp2p's daemon does not answer: {error!r}")
        return False
    return True
