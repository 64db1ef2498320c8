"""Taking over the state of a peer that is ahead, and giving it to others: a snapshot, written when it is asked for."""

import hashlib
from collections.abc import Callable, Iterable

from averaging.log.header import Entry, SnapshotName, peer_of
from averaging.protocol.actions import Forget, Load, WriteSnapshot
from averaging.protocol.contacts import Contacts
from averaging.protocol.fetching import LONGEST, Fetching
from averaging.protocol.messages import Log, WantLog
from averaging.protocol.session import Session


class Loading:
    """Loads a state of another peer when this one is behind, and gives its own when it is asked."""

    def __init__(self, session: Session, contacts: Contacts, fetching: Fetching, step: Callable[[], int | None]):
        """`step`: of the state that this peer can give; None: it is behind."""
        self._step = step
        self._contacts, self._fetching, self._send, self._act = contacts, fetching, session.send, session.act
        self._asked, self._asked_at, self._tries = "", -1e9, 0
        self._wanted: SnapshotName | None = None
        self._useless: set[str] = set()  # peers whose states could not be taken over
        self.is_ordered = False  # the process is taking the state over
        self._old: set[str] = set()  # digests that were held when the newest step was taken
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
        useful = [one for one in reachable if peer_of(one) not in self._useless]
        if useful:
            order = sorted(useful, key=lambda one: hashlib.sha256(f"{me} {one}".encode()).digest())
            self._asked, self._asked_at = order[self._tries % len(order)], now
            self._tries += 1
            self._send(self._asked, WantLog(None))
        elif reachable:  # perhaps it was this peer's fault
            self._useless.clear()
            self._asked_at = now

    def on_log(self, sender: str, log: Log, now: float) -> None:
        """The peer that was asked has named a snapshot, or has none."""
        if self.is_ordered:
            return  # what the process was asked for cannot be taken back
        if sender == self._asked and log.snapshot is None:
            self.stop()
        elif sender == self._asked and self._wanted is None:
            self._wanted, self._asked_at = log.snapshot, now
            assert log.snapshot is not None
            self._fetching.want_snapshot(log.snapshot.digest, [sender], now)

    def found(self) -> SnapshotName | None:
        """The snapshot, once all of it is here."""
        return self._wanted if self._wanted is not None and self._fetching.holds([self._wanted.digest]) else None

    def order(self, entry: Entry, snapshot: SnapshotName) -> None:
        """Have the process take it over, as the state after a step."""
        self.is_ordered = True
        self._act(Load((entry,), snapshot.digest))

    def useless(self, digest: str) -> str:
        """A snapshot cannot be taken over; returns who has given it, and is asked no more. Empty: it is not wanted."""
        source, wanted = self._asked, self._wanted
        if wanted is None or wanted.digest != digest:
            return ""
        self._useless.add(peer_of(source))
        parts = self._fetching.parts_of([digest])
        self.stop()
        self._forget({digest, *parts})
        return source

    def stop(self) -> None:
        """Load nothing more."""
        if self._wanted is not None:
            self._fetching.want_instead([self._wanted.digest], ())
        self._asked, self._asked_at, self._wanted, self.is_ordered = "", -1e9, None, False

    # -- of a peer that is asked

    def on_want_log(self, sender: str, want: WantLog, now: float) -> None:
        """A peer wants the state of this one."""
        if (step := self._step()) is None:
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

    def forget_old(self, since: int, newest: Iterable[str]) -> None:
        """Drop what was held a step ago; members that are late may ask for the rest.

        `newest` is kept, and so is what others or this peer may still load: snapshots not older than a step.
        """
        names = {one.digest for one in (self._made, self._wanted) if one is not None and one.step >= since}
        self._forget(self._old - names.union(newest, self._fetching.parts_of(names)))
        self._old = set(self._fetching.held)

    def _forget(self, digests: set[str]) -> None:
        gone = self._fetching.held & digests
        self._fetching.forget(gone)
        self._act(Forget(tuple(sorted(gone))))
