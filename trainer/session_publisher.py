"""Publishes the record by which the swarm knows this session: one process of one user."""

import time
from collections import Counter
from collections.abc import Callable, Mapping

from hivemind.dht import DHT

from swarm import clock
from swarm.access.gate import Gate
from swarm.dht.node import addresses
from swarm.dht.records import LARGEST_COUNT, MOST_HOSTS_TOLD, ServedTokens, SessionRecord, publish
from swarm.identity import Identity
from trainer.credit_tracker import CreditTracker

PUBLISH_EVERY = 10.0  # seconds between two records when nothing has happened
MOST_ADDRESSES = 4  # of one peer


class SessionPublisher:
    """Publishes what this process is and does; its contributions stand in the headers instead.

    Args:
        credit: of a trainer; absent: this process hosts experts and trains nothing.
        served: tokens that each host's experts, by peer id, have served this process so far.
    """

    def __init__(
        self,
        run_name: str,
        identity: Identity,
        dht: DHT,
        *,
        device: str,
        gate: Gate,
        credit: CreditTracker | None = None,
        served: Callable[[], Mapping[str, int]] = dict,
        country: str | None = None,
    ):
        self._credit, self._served = credit, SessionTally(served)
        self._run_name, self._identity, self._dht = run_name, identity, dht
        self._device, self._country, self._gate = device, country, gate
        self.client_mode = dht.client_mode
        self._addresses = [] if dht.client_mode else addresses(dht)[:MOST_ADDRESSES]
        self._started = clock.now()
        self._published, self._pause = float("-inf"), ""

    def publish(
        self, session_id: str, step: int, samples_per_second: float, data_wait_fraction: float, pause: str = ""
    ) -> None:
        """Store the record if the last one is `PUBLISH_EVERY` seconds old, or says something else of a pause.

        Args:
            session_id: 32 hexadecimal digits.
            pause: why it pauses; empty if it does not.
        """
        if time.monotonic() - self._published >= PUBLISH_EVERY or pause != self._pause:
            self._published, self._pause = time.monotonic(), pause
            self._store(session_id, step, samples_per_second, data_wait_fraction, pause)

    def leave(self, session_id: str, step: int, data_wait_fraction: float, pause: str = "") -> None:
        """Store that this session is over; waits up to 2 seconds for it."""
        self._store(session_id, step, 0.0, data_wait_fraction, pause, left=True, wait=2.0)

    def _store(
        self,
        session_id: str,
        step: int,
        speed: float,
        data_wait: float,
        pause: str,
        *,
        left: bool = False,
        wait: float = 0.0,
    ) -> None:
        record = SessionRecord(
            session_id=session_id,
            shown_pass=self._gate.own.to_bytes(),
            device=self._device,
            country=self._country or "",
            client_mode=self._dht.client_mode,
            addresses=self._addresses,
            started=self._started,
            time=clock.now(),
            step=step,
            samples_per_second=float(speed),
            averaging_rounds=self._credit.rounds if self._credit else 0,
            averaging_failures=self._credit.failures if self._credit else 0,
            data_wait_fraction=min(1.0, max(0.0, float(data_wait))),
            pause=pause,
            left=left,
            hosts_experts=self._credit is None,
            served=[ServedTokens(host=host, tokens=tokens) for host, tokens in self._served.of(session_id)],
        )
        publish(self._dht, self._run_name, self._identity, record, wait=wait)


class SessionTally:
    """Tokens that hosts have served a session; a process may be one session after the other.

    Args:
        served: the process so far, by the hosts' peer ids.
    """

    def __init__(self, served: Callable[[], Mapping[str, int]]):
        self._served = served
        self._session = ""
        self._before: Counter[str] = Counter()  # what was told of earlier sessions
        self._told: Counter[str] = Counter()  # of all sessions

    def of(self, session_id: str) -> list[tuple[str, int]]:
        """What is to be told of this session: the hosts with most tokens, as many as a record holds."""
        if session_id != self._session:
            self._session, self._before = session_id, self._told
        self._told = Counter(self._served())
        ours = self._told - self._before
        return [(host, min(tokens, LARGEST_COUNT)) for host, tokens in ours.most_common(MOST_HOSTS_TOLD)]
