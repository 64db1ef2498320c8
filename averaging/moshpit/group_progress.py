"""Progress towards the target batch of a run in small groups: one peer counts, and says who takes the step together.

That is the coordinator, or, while it is silent, the first reachable peer in the order of a hash. Two that count at a
time cost a step some of its peers, which go on without it.
"""

import functools
import hashlib
from collections import Counter
from collections.abc import Callable

from averaging.log.header import Head
from averaging.protocol.buffers import Buffers
from averaging.protocol.contacts import Contacts
from averaging.protocol.messages import Groups, Message, Report, Status
from averaging.protocol.rounds.batch_progress import HEARD, PeerViews
from averaging.protocol.settings import Settings


class GroupProgress:
    """Counts the samples of all peers, or reports those of this one to the peer that counts."""

    def __init__(
        self,
        contacts: Contacts,
        settings: Settings,
        buffers: Buffers,
        head: Callable[[], Head | None],
        send: Callable[[str, Message], None],
    ):
        self.views = PeerViews()
        self.announced: Groups | None = None  # the newest step that began
        self.announced_at = 0.0
        self._contacts, self._settings, self._buffers, self._head, self._send = contacts, settings, buffers, head, send
        self._counter, self._waits_since = "", 0.0  # to which this peer reports, and since when without an answer
        self._silent: set[str] = set()  # sessions that should have counted, and said nothing
        self._reported_at, self._reported_samples, self._gathered = -1e9, 0, 0
        self._told = -1  # step of the one that counts

    def heard(self, sender: str, now: float) -> None:
        """Take in that a peer has said something."""
        self.views.heard(sender, now)
        self._silent.discard(sender)
        if sender == self._counter:
            self._waits_since = now

    def counter(self, now: float) -> str:
        """The session that counts."""
        me = self._contacts.me
        contacts = [one for one in (*self._contacts.others.values(), me) if one.reachable]
        while candidates := [one for one in contacts if one.session not in self._silent]:
            first = min(candidates, key=lambda one: (not one.is_coordinator, _drawn(one.session))).session
            if first != self._counter:
                self._counter, self._waits_since = first, now
            if first == me.session or now < self._waits_since + self._settings.timeouts.absence:
                return first
            self._silent.add(first)
        self._silent.clear()  # it may have been this peer that was cut off: begin again
        self._counter = ""
        return ""

    def counts(self, now: float) -> bool:
        """Whether this peer does."""
        return self.counter(now) == self._contacts.me.session

    def gathered(self, now: float) -> int:
        """Samples of all peers towards the next step, as far as this one knows."""
        if self.counts(now) and (head := self._head_of_most(now)) is not None:
            return self.views.gathered(head.digest, now)
        return max(self._gathered, self._buffers.samples)

    def newest(self, now: float) -> int:
        """The step at which the others are: the one that counts says so, or hears it from half of them."""
        if not self.counts(now):
            return self._told
        me = self._contacts.me.session
        others = [one for session, one in self.views.peers.items() if session != me and now < one.heard_at + HEARD]
        steps = sorted(one.head.step for one in others if one.head is not None)
        return steps[(len(steps) - 1) // 2] if steps else -1

    def computed(self, now: float) -> None:
        """Gradients were added to the buffers; report them now if they may be what the batch lacks."""
        missing = max(0, self._settings.target_samples - self._gathered)
        if (self._buffers.samples - self._reported_samples) * 2 * max(1, len(self._contacts.others)) >= missing:
            self.report(now)

    def tick(self, now: float) -> None:
        """Report when it is time for it."""
        if now >= self._reported_at + self._settings.timeouts.report:
            self.views.forget_silent(now, self._settings.timeouts.forget)
            self.report(now)

    def report(self, now: float) -> None:
        """Say where this peer stands and what it has."""
        self._reported_at, self._reported_samples = now, self._buffers.samples
        others = self._contacts.others
        # a coordinator that was silent says something only if it is asked, and then it counts again
        listening = {self.counter(now), *(one for one, contact in others.items() if contact.is_coordinator)}
        for session in sorted(listening.intersection(others)):
            self._send(session, Report(self._head(), self._buffers.samples))

    def on_report(self, sender: str, report: Report, now: float) -> None:
        """A peer says what it has."""
        self.views.note(sender, report.head, self._settings.believed(report.samples), now)
        groups = self.announced
        if groups is not None and report.head is not None and report.head.step == groups.step:
            self._send(sender, groups)  # it may have been lost
        self.tell(sender, now)

    def tell(self, session: str, now: float) -> None:
        """Say where this peer stands; if it counts, where most do."""
        counts = self.counts(now)
        head = self._head_of_most(now) if counts else self._head()
        self._send(session, Status(head, None, counts, self.gathered(now)))

    def on_status(self, sender: str, status: Status, now: float) -> None:
        """The peer that counts says where it stands, and what all have."""
        if sender == self.counter(now) and status.head is not None:
            self._told = status.head.step
            self._gathered = status.gathered if status.head == self._head() else 0

    def announce(self, now: float) -> None:
        """Say that the next step begins, if this peer counts and the batch is there.

        It may be the step of the others alone: this peer has no state yet, or has missed some of theirs.
        """
        head, target, me = self._head_of_most(now), self._settings.target_samples, self._contacts.me
        if head is None or head.step >= self._settings.last_step or not self.counts(now):
            return
        if self.announced is not None and self.announced.step >= head.step:
            return
        self.views.note(me.session, self._head(), self._buffers.samples, now)
        present = self.views.present(head.digest, now)
        if sum(one.samples for one in present.values()) < target:
            return
        known = {one: self._contacts.get(one) for one in sorted(present)}
        members = tuple(session for session, one in known.items() if one is not None and one.reachable)
        clients = tuple(session for session, one in known.items() if one is not None and not one.reachable)
        groups = Groups(head.step, members, clients)
        for session in (*members, *clients):
            self._send(session, groups)
        if me.session not in present:
            self.announced, self.announced_at = groups, now

    def _head_of_most(self, now: float) -> Head | None:
        """Where this peer stands, or the others if they are further."""
        own, newest = self._head(), self.newest(now)
        if own is not None and newest <= own.step:
            return own
        heads = [one.head for one in self.views.peers.values() if one.head is not None]
        found = Counter(one for one in heads if one.step == newest)
        return found.most_common(1)[0][0] if found else own

    def begins(self, now: float, *, is_computing: bool) -> Groups | None:
        """The step that begins for this peer now; it waits for the end of a batch, unless that takes long."""
        groups, head, waits = self.announced, self._head(), now < self.announced_at + self._settings.timeouts.batch
        if groups is None or head is None or head.step != groups.step or (is_computing and waits):
            return None
        return groups if self._contacts.me.session in (*groups.members, *groups.clients) else None

    def on_groups(self, sender: str, groups: Groups, now: float) -> None:
        """A step begins, if the peer that counts says so and it can be the next one."""
        head = self._head()
        newest = max(self._told, -1 if head is None else head.step)
        if sender != self.counter(now) or groups.step > newest + 1:
            return
        if self.announced is None or groups.step > self.announced.step:
            self.announced, self.announced_at = groups, now


@functools.lru_cache(maxsize=4096)
def _drawn(session: str) -> bytes:
    return hashlib.sha256(session.encode()).digest()
