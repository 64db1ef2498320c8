"""What two threads share: the trainer's, which adds gradients, and that of the event loop, where all else happens."""

import threading
from collections.abc import Iterable

from averaging.protocol.credentials import Credentials
from averaging.protocol.messages import Contact, Log
from averaging.protocol.peer import Peer
from averaging.protocol.settings import Settings
from averaging.reduce.sender import GradientBuffers


class Guarded:
    """The machine of a peer and its gradients; `lock` is to be held where one of the two threads changes them."""

    def __init__(
        self, me: Contact, settings: Settings, gradients: GradientBuffers, credentials: Credentials, now: float
    ):
        self.lock = threading.Lock()
        self.settings, self.gradients, self._credentials = settings, gradients, credentials
        self.machine = Peer(me, settings, now, credentials=credentials)
        self._loads_before = 0  # of earlier sessions

    @property
    def loads(self) -> int:
        """Loads and rollbacks that were ordered: until all are carried out, the state is one that was left behind."""
        return self._loads_before + self.machine.buffers.drops

    def begin_again(self, me: Contact, log: Log, chunks: Iterable[str], loads: int, now: float) -> None:
        """Another session, from a log whose snapshot is here: its chunks are given, and the loads that were done."""
        old = self.machine
        self._loads_before = loads  # what the old session has ordered since is not done any more
        self.gradients = GradientBuffers(self.gradients.grid, self.gradients.kind)
        self.machine = Peer(me, self.settings, now, old.fetching.held, credentials=self._credentials)
        if log.snapshot is not None:
            self.machine.fetching.made(log.snapshot.digest, chunks, now)
        self.machine.reached(-1, now)
        self.machine.rejoin(log, old, now)
