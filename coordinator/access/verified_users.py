"""Whom the Hub has vouched for lately, by peer: what a pass is renewed on where no token can be shown."""

import threading
from collections import OrderedDict

from coordinator.access.hub_identity import HubUser
from swarm import clock

VOUCHED_FOR = 24 * 3600.0  # seconds that the Hub's word counts without being asked again
MOST = 10_000  # peers


class VerifiedUsers:
    """Since the start of the coordinator; nothing of it is written down. Threads may share it."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, tuple[float, HubUser]] = OrderedDict()
        self._lock = threading.Lock()

    def note(self, peer_id: str, who: HubUser) -> None:
        """The Hub has just said whose token this peer showed."""
        with self._lock:
            self._known[peer_id] = (clock.now() + VOUCHED_FOR, who)
            self._known.move_to_end(peer_id)
            while len(self._known) > MOST:
                self._known.popitem(last=False)

    def of(self, peer_id: str) -> HubUser | None:
        """Whose peer it is, as the Hub said within the last `VOUCHED_FOR` seconds."""
        until, who = self._known.get(peer_id, (0.0, None))
        return who if clock.now() < until else None
