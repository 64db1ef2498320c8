"""A machine and its gradients behind a lock: the trainer's thread adds gradients, the event loop does all else."""

import asyncio
import logging
import threading
from collections.abc import Iterable
from typing import TypeAlias

from averaging.log.header import Ballot, peer_of
from averaging.moshpit.group_keys import GroupSettings
from averaging.moshpit.group_round import is_of_parameters
from averaging.moshpit.peer import GroupPeer
from averaging.protocol.credentials import Credentials
from averaging.protocol.messages import Contact, Log
from averaging.protocol.peer import LogPeer
from averaging.protocol.rounds.parts import Planner
from averaging.protocol.settings import Settings
from averaging.reduce.gradient_buffers import GradientBuffers
from averaging.reduce.gradient_codec import Compression

logger = logging.getLogger(__name__)

Machine: TypeAlias = LogPeer | GroupPeer  # of a run that is a log, or of one in small groups


class LockedMachine:
    """The machine of a peer and its gradients; `lock` is to be held where one of the two threads changes them.

    Args:
        planner: deals out parts and roles when this peer convenes.
        groups: of a run in small groups, which has no log.
    """

    def __init__(
        self,
        me: Contact,
        settings: Settings,
        gradients: GradientBuffers,
        planner: Planner,
        credentials: Credentials,
        groups: GroupSettings | None,
    ):
        self.lock, now = threading.Lock(), asyncio.get_running_loop().time()
        self.settings, self.gradients, self._planner, self.credentials = settings, gradients, planner, credentials
        self.machine: Machine = (
            LogPeer(me, settings, credentials, now, planner=planner)
            if groups is None
            else GroupPeer(me, settings, credentials, groups, now, planner)
        )
        self.machine.reached(-1, now)
        self._loads_before = 0  # of earlier sessions

    @property
    def is_log(self) -> bool:
        """Whether the run is a log, and not one in small groups."""
        return isinstance(self.machine, LogPeer)

    @property
    def loads(self) -> int:
        """Loads and rollbacks that were ordered: until all are carried out, the state is one that was left behind."""
        return self._loads_before + self.machine.buffers.drops

    def kind(self, ballot: Ballot) -> Compression:
        """Of pieces and means in a round; parameters are averaged exactly."""
        is_state = isinstance(self.machine, GroupPeer) and is_of_parameters(ballot.number)
        return "none" if is_state else self.gradients.kind

    def cannot_load(self, machine: Machine, snapshot: str, error: ValueError, now: float) -> None:
        """A snapshot that a peer has given, or told of, is of no use."""
        with self.lock:
            source = machine.cannot_load(snapshot, now)
        whose = f"the state of {peer_of(source)}" if source else f"snapshot {snapshot}"
        logger.warning("%s cannot be used, so another peer is asked: %s", whose, error)

    def begin_again(self, me: Contact, log: Log | None, chunks: Iterable[str], loads: int, now: float) -> None:
        """Another session, from a log whose snapshot is here: its chunks are given, and the loads that were done.

        Without a log it begins like a newcomer.
        """
        old = self.machine
        assert isinstance(old, LogPeer)
        self._loads_before = loads  # what the old session has ordered since is not done any more
        self.gradients = GradientBuffers(self.gradients.grid, self.gradients.kind)
        self.machine = new = LogPeer(me, self.settings, self.credentials, now, old.fetching.held, self._planner)
        new.session.speed = old.session.speed
        if log is not None and log.snapshot is not None:
            new.fetching.made(log.snapshot.digest, chunks, now)
        new.reached(-1, now)
        new.rejoin(log, old, now)
