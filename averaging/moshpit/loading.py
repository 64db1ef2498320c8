"""Taking over the state of a peer that is ahead, and giving it to others: a snapshot, written when it is asked for."""

import hashlib
from collections.abc import Callable, Iterable

from averaging.log.header import SnapshotName
from averaging.protocol.actions import Action, WriteSnapshot
from averaging.protocol.contacts import Contacts
from averaging.protocol.fetching import LONGEST, Fetching
from averaging.protocol.messages import Log, Message, WantLog


class Loading:
    """Of one peer."""

    def __init__(
        self,
        contacts: Contacts,
        fetching: Fetching,
        send: Callable[[str, Message], None],
        act: Callable[[Action], None],
    ):
        self._contacts, self._fetching, self._send, self._act = contacts, fetching, send, act
        self._asked, self._asked_at, self._tries = "", -1e9, 0
        self._wanted: SnapshotName | None = None
        self._waiting: set[str] = set()  # peers that wait for a snapshot of this one
        self._made: SnapshotName | None = None  # the newest one of this peer
        self._makes = -1  # step of the newest one that was asked for

    # -- of a peer that is behind

    def ask(self, now: float) -> None:
        """Ask a peer for its state, or another one if nothing comes."""
        if now < self._asked_at + LONGEST or self._fetching.is_moving(now):
            return
        self.stop()
        me = self._contacts.me.session
        reachable = [one for one, contact in self._contacts.others.items() if contact.reachable]
        if reachable:
            order = sorted(reachable, key=lambda one: hashlib.sha256(f"{me} {one}".encode()).digest())
            self._asked, self._asked_at = order[self._tries % len(order)], now
            self._tries += 1
            self._send(self._asked, WantLog(None))

    def on_log(self, sender: str, log: Log, now: float) -> None:
        """The peer that was asked has named a snapshot, or has none."""
        if sender == self._asked and log.snapshot is None:
            self.stop()
        elif sender == self._asked and self._wanted is None:
            self._wanted, self._asked_at = log.snapshot, now
            assert log.snapshot is not None
            self._fetching.want_snapshot(log.snapshot.digest, [sender], now)

    def found(self) -> SnapshotName | None:
        """The snapshot, once all of it is here."""
        return self._wanted if self._wanted is not None and self._fetching.holds([self._wanted.digest]) else None

    def stop(self) -> None:
        """Load nothing."""
        if self._wanted is not None:
            self._fetching.want_instead([self._wanted.digest], ())
        self._asked, self._asked_at, self._wanted = "", -1e9, None

    # -- of a peer that is asked

    def on_want_log(self, sender: str, step: int | None) -> None:
        """A peer wants the state of this one, which stands at a step; None: it has none."""
        if step is None:
            self._send(sender, Log((), None))
            return
        if self._made is not None and self._made.step >= step:
            self._send(sender, Log((), self._made))
            return
        self._waiting.add(sender)
        if self._makes < step:
            self._makes = step
            self._act(WriteSnapshot())

    def made(self, name: SnapshotName, chunks: Iterable[str], now: float) -> None:
        """The snapshot is written."""
        self._fetching.made(name.digest, chunks, now)
        self._made = name
        for session in self._waiting:
            self._send(session, Log((), name))
        self._waiting.clear()

    def kept(self, since: int) -> set[str]:
        """What others load or this peer does, and is not to be forgotten: of snapshots not older than a step."""
        names = [one for one in (self._made, self._wanted) if one is not None and one.step >= since]
        return {one.digest for one in names} | self._fetching.parts_of(one.digest for one in names)
