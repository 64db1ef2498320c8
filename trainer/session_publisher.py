"""Publishes the record by which the swarm knows this session: one process of one user."""

import time

from hivemind.dht import DHT

from swarm import clock
from swarm.access.gate import Gate
from swarm.dht.node import addresses
from swarm.dht.records import SessionRecord, publish
from swarm.identity import Identity
from trainer.credit_tracker import CreditTracker

PUBLISH_EVERY = 10.0  # seconds between two records when nothing has happened
MOST_ADDRESSES = 4  # of one peer


class SessionPublisher:
    """Publishes what this process is and does; its contributions stand in the headers instead."""

    def __init__(
        self,
        run_name: str,
        identity: Identity,
        dht: DHT,
        *,
        device: str,
        credit: CreditTracker,
        gate: Gate,
        country: str | None = None,
    ):
        self._credit = credit
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
            averaging_rounds=self._credit.rounds,
            averaging_failures=self._credit.failures,
            data_wait_fraction=min(1.0, max(0.0, float(data_wait))),
            pause=pause,
            left=left,
        )
        publish(self._dht, self._run_name, self._identity, record, wait=wait)
