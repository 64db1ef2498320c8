"""Makes a host leave once trainers can no longer connect to its machine, as when a laptop has moved behind a router."""

import threading
from collections.abc import Callable

LOOK_EVERY = 60.0  # seconds
ENOUGH = 3  # looks in a row: a moment in another network is no reason to leave


class ReachabilityWatch:
    """Looks in a thread of its own until `stop`.

    Such a host can still renew its record, and while it does no standby serves its experts.

    Args:
        is_unreachable: whether trainers cannot connect now; False while nothing is known, as without a network.
        leave: called once.
    """

    def __init__(self, is_unreachable: Callable[[], bool], leave: Callable[[], None]):
        self._is_unreachable, self._leave = is_unreachable, leave
        self._stopped = threading.Event()
        self.has_left = False

    def start(self) -> None:
        """Start the thread; hivemind's processes must have been forked before."""
        threading.Thread(target=self._watch, name="reachability", daemon=True).start()

    def stop(self) -> None:
        """Ask the thread to end."""
        self._stopped.set()

    def _watch(self) -> None:
        in_a_row = 0
        while in_a_row < ENOUGH:
            if self._stopped.wait(LOOK_EVERY):
                return
            in_a_row = in_a_row + 1 if self._is_unreachable() else 0
        self.has_left = True
        self._leave()
