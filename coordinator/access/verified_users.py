"""Remembers which user the Hub has verified for each peer, so that a pass can be renewed without a token."""

import threading
from collections import OrderedDict

from coordinator.access.hub_identity import HubUser
from swarm import clock

VERIFIED_FOR = 24 * 3600.0  # seconds for which the Hub is not asked again
MOST = 10_000  # peers


class VerifiedUsers:
    """In memory only, so since the coordinator's start. Threads may share it."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, tuple[float, HubUser]] = OrderedDict()
        self._lock = threading.Lock()

    def note(self, peer_id: str, who: HubUser) -> None:
        """The Hub has just verified the token that this peer has shown."""
        with self._lock:
            self._known[peer_id] = (clock.now() + VERIFIED_FOR, who)
            self._known.move_to_end(peer_id)
            while len(self._known) > MOST:
                self._known.popitem(last=False)

    def of(self, peer_id: str) -> HubUser | None:
        """The user of a peer, if the Hub verified it within the last `VERIFIED_FOR` seconds."""
        until, who = self._known.get(peer_id, (0.0, None))
        return who if clock.now() < until else None
