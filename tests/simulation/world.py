"""Virtual time and a network that delays, drops, reorders and partitions. One seed is one course of events."""

import hashlib
import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any

from averaging.log.header import Ballot, HeaderKind
from averaging.protocol.messages import Commit, Contact, Message, Propose, Vote
from averaging.protocol.rounds.parts import equal_parts
from averaging.protocol.settings import Settings
from tests.simulation.roles import rest_some
from tests.simulation.signatures import Signatures

if TYPE_CHECKING:
    from tests.simulation.process import Process

STREAM = 30.0  # seconds for which a stream to a peer in client mode stays open after its last word
LISTED = 30.0  # seconds for which the DHT lists a process that has died


@dataclass(frozen=True)
class Ambush:
    """A fault that waits for the next message of a kind, and strikes its sender."""

    moment: type[Propose] | type[Vote] | type[Commit]
    strike: Callable[["Process"], object]
    waits_for_another: bool = False  # ballot than that of the ambush before


class World:
    """All processes of a run, the network between them, and the clock."""

    def __init__(self, seed: int, settings: Settings, has_roles: bool = False):
        self.seed, self.random = seed, random.Random(seed)
        self.settings = settings
        self.signatures = Signatures()
        self.planner = partial(rest_some, self.random) if has_roles else equal_parts
        self.now = 0.0
        self.processes: dict[str, Process] = {}  # by session
        self.lossy = 0.0  # share of messages that are lost
        self.slow = 0.0  # share of messages that are late
        self.islands: dict[str, int] = {}  # by user; peers on different ones do not hear each other
        self.cut: set[frozenset[str]] = set()  # pairs of users that cannot reach each other
        self.banned: set[str] = set()  # users
        self.other_bits: set[str] = set()  # users whose processors drift away from the others'
        self.cheats: set[str] = set()  # sessions that name their friends when they convene
        self.is_honest = False  # whether nobody cheats any more
        self.ambushes: list[Ambush] = []  # the next one first
        self._ambushed: Ballot | None = None  # the last one
        self._queue: list[tuple[float, int, Callable[..., object], tuple[Any, ...]]] = []
        self._planned = 0  # events
        self._streams: dict[tuple[str, str], float] = {}  # when one session in client mode has last sent to another
        self._listed: dict[str, Contact] = {}  # by session
        self._contacts: list[Contact] = []  # of them, those that are to be seen until this time
        self._contacts_until = -math.inf
        self._notes: list[str] = []

    # -- time

    def at(self, time: float, what: Callable[..., object], *given: Any) -> None:
        """Have something happen at a time: a call of this with what is given."""
        self._planned += 1
        heappush(self._queue, (time, self._planned, what, given))

    def after(self, seconds: float, what: Callable[..., object], *given: Any) -> None:
        """Have something happen a while from now."""
        self._planned += 1
        heappush(self._queue, (self.now + seconds, self._planned, what, given))

    def run_until(self, time: float) -> None:
        """Let everything happen up to a time."""
        queue = self._queue
        while queue and queue[0][0] <= time:
            self.now, _, what, given = heappop(queue)
            what(*given)
        self.now = time

    @property
    def events(self) -> int:
        """How many have happened."""
        return self._planned - len(self._queue)

    def note(self, what: str) -> None:
        """Add to the trace, by which two courses are compared."""
        self._notes.append(f"{self.now:.6f} {what}\n")

    @property
    def trace(self) -> str:
        """Digest of all that has happened."""
        return hashlib.blake2b("".join(self._notes).encode(), digest_size=16).hexdigest()

    # -- the DHT

    def list_contact(self, contact: Contact) -> None:
        """A process has begun."""
        self._listed[contact.session] = contact
        self._contacts_until = self.now

    def unlist(self, session: str) -> None:
        """A process said goodbye."""
        self._listed.pop(session, None)
        self._contacts_until = self.now

    def ban(self, user: str) -> None:
        """Shut somebody out."""
        self.banned.add(user)
        self._contacts_until = self.now

    def has_died(self) -> None:
        """A process has ended; it stays listed for a while."""
        self._contacts_until = min(self._contacts_until, self.now + LISTED)

    def contacts(self) -> list[Contact]:
        """The peers that the DHT lists; those that died are listed for a while. A new list where something changed."""
        if self.now >= self._contacts_until:
            listed = [one for one in self._listed.values() if one.user not in self.banned]
            until = {one.session: self.processes[one.session].died_at + LISTED for one in listed}
            self._contacts = [one for one in listed if self.now < until[one.session]]
            self._contacts_until = min((until[one.session] for one in self._contacts), default=math.inf)
        return self._contacts

    # -- the network

    def send(self, sender: "Process", to: str, message: Message, payload: Any) -> None:
        """Deliver a message later, or never."""
        if not sender.contact.reachable:
            self._streams[sender.session, to] = self.now
        if self.ambushes:
            self._spring(sender, message)
        receiver = self.processes.get(to)
        if receiver is None or not self._may_pass(sender, receiver) or self.random.random() < self.lossy:
            return
        delay = 0.02 + 0.1 * self.random.random() + sender.lag
        if self.random.random() < self.slow:
            delay += 40.0 * self.random.random() ** 3
        self.after(delay, self._deliver, sender, receiver, message, payload)

    def _deliver(self, sender: "Process", receiver: "Process", message: Message, payload: Any) -> None:
        if receiver.is_alive and self.now >= receiver.deaf_until and self._connected(sender, receiver):
            receiver.receive(sender.session, message, payload)

    def _spring(self, sender: "Process", message: Message) -> None:
        if not isinstance(message, self.ambushes[0].moment):
            return
        ballot = message.entry.certificate.ballot if isinstance(message, Commit) else message.ballot
        if self.ambushes[0].waits_for_another and ballot == self._ambushed:
            return
        self._ambushed = ballot
        self.ambushes.pop(0).strike(sender)

    def _may_pass(self, sender: "Process", receiver: "Process") -> bool:
        if not self._connected(sender, receiver):
            return False
        if receiver.contact.reachable:
            return True
        return self.now < self._streams.get((receiver.session, sender.session), -math.inf) + STREAM

    def _connected(self, one: "Process", other: "Process") -> bool:
        if not (self.banned or self.islands or self.cut):
            return True
        first, second = one.contact.user, other.contact.user
        if self.banned and (first in self.banned or second in self.banned):
            return False
        if self.islands and self.islands.get(first, 0) != self.islands.get(second, 0):
            return False
        return not self.cut or frozenset((first, second)) not in self.cut

    # -- who is there

    def living(self) -> "list[Process]":
        """The processes that are neither dead nor shut out."""
        return [one for one in self.processes.values() if one.is_alive and one.contact.user not in self.banned]


def is_voted(kind: HeaderKind) -> bool:
    """Whether headers of this kind are chosen by votes."""
    return kind in (HeaderKind.UPDATE, HeaderKind.ROLLBACK)
