"""The experts of a run as a trainer reaches them: a table of who has which, kept up to date, and calls."""

import contextlib
from concurrent.futures import TimeoutError as NoAnswer

from averaging.shell.connection import Membership
from averaging.transport.loop import LoopThread, join_daemon
from experts.directory.records import Directory
from experts.grid import size
from experts.host.settings import ExpertSettings, settings_of
from experts.remote.following import follow
from experts.remote.remote_experts import RemoteExperts

CLOSING = 2.0  # seconds for the connection to libp2p's daemon to end


def open_experts(membership: Membership) -> "ReachedExperts | None":
    """Begin to look for hosts, if the run has experts; hivemind's processes must have been forked before."""
    settings, section = settings_of(membership.run), membership.run.experts
    if settings is None or section is None:
        return None
    return ReachedExperts(membership, settings, section.timeout)


class ReachedExperts:
    """Calls have an event loop of their own, so that they and the averaging do not hold each other up."""

    def __init__(self, membership: Membership, settings: ExpertSettings, timeout: float):
        dht, gate = membership.dht, membership.gate
        self._size = size(settings.grid)
        self._loop = LoopThread("experts")
        self._loop.start()
        self._p2p = self._loop.call(join_daemon(dht))
        self.caller = RemoteExperts(self._loop, self._p2p, gate, membership.fingerprint, settings, timeout)
        directory = Directory(dht, membership.run.name, gate, settings.grid, settings.fingerprint)
        self._loop.begin(follow(directory, self.caller))

    @property
    def answering(self) -> tuple[int, int]:
        """How many experts are believed to answer now, and how many the grid has room for."""
        return len(self.caller.alive()), self._size

    def close(self) -> None:
        """End all streams; before the DHT is shut down."""
        self.caller.close()
        with contextlib.suppress(NoAnswer):
            self._loop.call(self._p2p.shutdown(), CLOSING)
        self._loop.stop(CLOSING)
