"""Renewing the pass in silence, long before it expires.

The coordinator is asked over HTTP, and over libp2p where that fails. It may be away: training goes on, and it is asked
again and again. Only its word that the person is banned or the run is over ends the session.
"""

import logging
import random
import threading
from collections.abc import Callable
from typing import Protocol

from hivemind.dht import DHT
from hivemind.p2p import PeerID

from app.join.current_address import AWAY
from app.join.libp2p_renewal import INSTEAD
from app.join.notices_over_http import Hearing, keep_hearing
from app.join.problems import Banned, JoinProblem, RunFinished
from swarm import clock
from swarm.access.join_messages import Renewed
from swarm.access.passes import Pass, check_pass, read_pass
from swarm.errors import SahajError
from swarm.logging.logs import log_failure

logger = logging.getLogger(__name__)

LONGEST_PAUSE = 60.0  # seconds between two attempts
SHORTEST_PAUSE = 1.0
LONGEST_NAP = 5.0  # seconds between two looks at the clock
ENDING = (Banned, RunFinished)


class Renewable(Hearing, Protocol):
    """The part of `swarm.access.gate.Gate` that is needed here."""

    run_name: str
    authority: bytes

    def renew(self, own: Pass) -> None:
        """Use this pass from now on."""


class Renewal:
    """A thread that keeps the pass in the gate fresh, and one that hears notices which do not come by the swarm.

    Args:
        ask: fetches a new pass over HTTP; raises a JoinProblem.
        ask_directly: does so over libp2p, which the node of the DHT speaks.
        hear: fetches the signed notices of the coordinator; raises a JoinProblem.
        expires: of the first pass, unix time in seconds.
        say: told in one line when something changes.
        ended: told once, when this peer may not go on.
        renewed: given each good answer.
    """

    def __init__(
        self,
        ask: Callable[[], Renewed],
        ask_directly: Callable[[DHT], Renewed],
        hear: Callable[[], bytes],
        gate: Renewable,
        peer_id: PeerID,
        expires: float,
        *,
        say: Callable[[str], None],
        ended: Callable[[str], None],
        renewed: Callable[[Renewed], None] = lambda _: None,
    ):
        self._ask, self._ask_directly, self._hear = ask, ask_directly, hear
        self._gate, self._peer_id, self._expires = gate, peer_id, expires
        self._say, self._ended, self._renewed = say, ended, renewed
        self._stop = threading.Event()
        self._trouble = ""  # what was last said about it
        self.ended_by: JoinProblem | None = None

    def start(self, dht: DHT) -> None:
        """Begin; call it when the peer's processes have been forked."""
        threading.Thread(target=self._run, args=(dht,), name="renewal", daemon=True).start()
        hearing = (self._gate, self._hear, self._stop)
        threading.Thread(target=keep_hearing, args=hearing, name="hearing", daemon=True).start()

    def stop(self) -> None:
        """Renew and hear no more."""
        self._stop.set()

    def _run(self, dht: DHT) -> None:
        failures, asked_pause = 0, 0.0
        while not self._waited(max(asked_pause, pause(self._expires, clock.now(), failures, random.random()))):
            try:
                self._take(self._ask_either_way(dht))
            except ENDING as problem:
                self.ended_by = problem
                self._ended(str(problem))
                return
            except Exception as problem:  # whatever it is, training goes on, and the next attempt may do better
                failures += 1
                if not isinstance(problem, SahajError):
                    log_failure(problem, "the pass could not be renewed")
                asked_pause = min(getattr(problem, "retry_after", 0.0), LONGEST_PAUSE)
                self._tell(_describe(problem))
            else:
                failures, asked_pause = 0, 0.0
                if self._trouble:
                    self._trouble = ""
                    self._say("The coordinator is back, and the pass is renewed.")

    def _waited(self, seconds: float) -> bool:
        """Wait by the wall clock: a machine that slept wakes up with an old pass. Returns whether it is over."""
        due = clock.now() + seconds
        while (left := due - clock.now()) > 0:
            if self._stop.wait(min(left, LONGEST_NAP)):
                return True
        return self._stop.is_set()

    def _ask_either_way(self, dht: DHT) -> Renewed:
        try:
            return self._ask()
        except INSTEAD as problem:
            try:
                return self._ask_directly(dht)
            except ENDING:
                raise
            except Exception as another:
                logger.debug("not over libp2p either: %r", another)
            raise problem

    def _take(self, answer: Renewed) -> None:
        own = read_pass(answer.pass_)
        check_pass(own, self._gate.authority, self._gate.run_name, self._peer_id)
        self._gate.take_notice(answer.notices)
        self._gate.renew(own)
        self._expires = own.expires
        self._renewed(answer)

    def _tell(self, trouble: str) -> None:
        if trouble != self._trouble:
            self._trouble = trouble
            self._say(trouble)


def pause(expires: float, now: float, failures: int, luck: float) -> float:
    """Seconds until the next attempt.

    Args:
        expires: of the pass, unix time in seconds, as `now`.
        failures: in a row since the last success.
        luck: from 0 to 1; spreads the peers that wait for the same coordinator.
    """
    if not failures:
        return max(SHORTEST_PAUSE, (expires - now) / 2)
    return max(SHORTEST_PAUSE, min(LONGEST_PAUSE, 2.0 ** min(failures, 10)) * (0.5 + 0.5 * luck))


def _describe(problem: Exception) -> str:
    if isinstance(problem, AWAY):
        return "The coordinator is away; training goes on, and it is asked again within a minute."
    reason = str(problem) if isinstance(problem, SahajError) else type(problem).__name__
    return f"The pass could not be renewed ({reason}); training goes on, and it is tried again."
