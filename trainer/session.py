"""A session: one process of one user, and the record by which the swarm knows of it."""

import time
import uuid
from collections.abc import Iterable

from hivemind.dht import DHT
from hivemind.p2p import PeerID

from swarm import clock
from swarm.dht import addresses
from swarm.gate import Gate
from swarm.identity import Identity
from swarm.records import MOST_SIGHTINGS, Contribution, SessionRecord, Sighting, mark_of, publish
from trainer.contributions import Brought, Contributions
from trainer.credited import Credited

PUBLISH_EVERY = 10.0  # seconds between two records when nothing has happened
MOST_ADDRESSES = 4  # of one peer


class Session:
    """Publishes what this process is and what it has brought to the swarm."""

    def __init__(
        self,
        run_name: str,
        identity: Identity,
        dht: DHT,
        *,
        name: str,
        device: str,
        country: str | None = None,
        gate: Gate | None = None,
        contributions: Credited | None = None,
    ):
        """`contributions`: in a run that is a log, where nothing has to be claimed."""
        self.contributions = Contributions()
        self._rounds = contributions or self.contributions
        self._run_name, self._identity, self._dht = run_name, identity, dht
        self._name, self._device, self._country, self._gate = name, device, country, gate
        self.id = uuid.uuid4().hex
        self.client_mode = dht.client_mode
        self._addresses = [] if dht.client_mode else addresses(dht)[:MOST_ADDRESSES]
        self._started = clock.now()
        self._published = float("-inf")

    def publish(self, step: int, samples_per_second: float, data_wait_fraction: float, *, urgent: bool = False) -> None:
        """Store the record if it is time to, or `urgent`."""
        if urgent or time.monotonic() - self._published >= PUBLISH_EVERY:
            self._published = time.monotonic()
            self._store(step, samples_per_second, data_wait_fraction)

    def leave(self, step: int, data_wait_fraction: float) -> None:
        """Say that this session is over; waits up to 2 seconds until it has been heard."""
        self._store(step, 0.0, data_wait_fraction, left=True, wait=2.0)

    def _store(self, step: int, speed: float, data_wait: float, *, left: bool = False, wait: float = 0.0) -> None:
        brought, rounds = self.contributions, self._rounds
        record = SessionRecord(
            session_id=self.id,
            name=self._name,
            shown_pass=self._gate.own.to_bytes() if self._gate else b"",
            device=self._device,
            country=self._country or "",
            client_mode=self._dht.client_mode,
            addresses=self._addresses,
            started=self._started,
            time=clock.now(),
            step=step,
            samples_per_second=float(speed),
            averaging_rounds=rounds.rounds,
            averaging_failures=rounds.failures,
            data_wait_fraction=min(1.0, max(0.0, float(data_wait))),
            left=left,
            contributions=[
                Contribution(
                    step=one.step, samples=one.samples, tokens=one.tokens, loss=one.loss, seen=self._sightings(one)
                )
                for one in brought.to_tell()
            ],
        )
        publish(self._dht, self._run_name, self._identity, record, wait=wait)

    def _sightings(self, brought: Brought) -> list[Sighting]:
        """Only where names are real: others would have nothing to lose by a false one."""
        if self._gate is None:
            return []
        seen = {PeerID.from_base58(name): samples for name, samples in brought.seen.items()}
        return [Sighting(peer=mark_of(one), samples=round(seen[one])) for one in next_of(self._identity.peer_id, seen)]


def next_of(own: PeerID, members: Iterable[PeerID]) -> list[PeerID]:
    """Of whom a peer tells: those after it in the order of ids, in a circle, so that of everybody some do."""
    others = sorted(one for one in members if one != own)
    later = [one for one in others if one > own]
    return (later + others[: len(others) - len(later)])[:MOST_SIGHTINGS]
