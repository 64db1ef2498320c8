"""What a peer holds of the log: its chain, the chunks of updates, snapshots; and what of it others may have."""

from collections.abc import Collection, Iterable, Iterator

from averaging.log.chain import Chain
from averaging.log.header import Entry, Head, Header, SnapshotName, shared_step, supersedes
from averaging.protocol import credentials as signed
from averaging.protocol.actions import Forget
from averaging.protocol.commit import quorum
from averaging.protocol.fetching import Fetching
from averaging.protocol.messages import Anchor, Log, WantLog
from averaging.protocol.session import Session

MOST_ENTRIES = 64  # of the log in an answer to a peer that is a little behind
LONGEST = 2**20  # bytes of headers and certificates beyond which they are told part by part
ROOM = 7 * 2**20  # bytes of them that fit into a message


class HeldLog:
    """Snapshots, updates and headers.

    The newest snapshot that a header names (the coordinator: two) and later ones; the updates since the last but one,
    as a peer that has loaded a snapshot over a thin line goes on with updates although there is a newer one by then;
    headers since then, those that voters are chosen by, and those that a coordinator may have missed.
    """

    def __init__(self, session: Session, fetching: Fetching):
        self._credentials, self._send, self._act = session.credentials, session.send, session.act
        self._is_coordinator = session.me.is_coordinator
        self._headers = 0 if self._is_coordinator else session.settings.headers  # that are kept for a coordinator
        self.anchor: Anchor | None = None  # the newest one of this chain
        self.chain: Chain | None = None  # None: the peer has no state yet
        self._to_come: tuple[Entry, ...] = ()  # that follow it, with which this peer has loaded its snapshot
        self.snapshots: list[SnapshotName] = []  # that can be given, oldest first
        self._fetching = fetching
        self.pinned: str | None = None  # digest of a snapshot that the authority wants back
        self._updates: dict[int, tuple[str, ...]] = {}  # digests of those that can be given, by step
        self._updates_after = -1  # the last snapshot but one

    @property
    def head(self) -> Head | None:
        """Where this peer stands."""
        return self.chain.head if self.chain is not None else None

    @property
    def tip(self) -> Header:
        """The newest header; there must be one."""
        assert self.chain is not None
        return self.chain.tip

    def start(self, chain: Chain, snapshots: Iterable[SnapshotName], to_come: Iterable[Entry] = ()) -> None:
        """Go on from a state: that of the newest header.

        `to_come`: committed entries that follow. They may be all that tells others of the snapshot, should this peer
        be the only one left that has it, and none have the updates.
        """
        self.chain, self.snapshots, self._to_come = chain, list(snapshots), tuple(to_come)
        first = self.snapshots[0].step + 1
        self._updates = {entry.header.step: entry.header.needed for entry in chain.since(first)}
        self._sign_head()

    def append(self, entry: Entry) -> None:
        """Take in the next committed header, whose chunks are here."""
        assert self.chain is not None
        self.chain.append(entry)
        self._to_come = tuple(one for one in self._to_come[1:] if self._to_come[0].header == entry.header)
        self._updates[entry.header.step] = entry.header.needed
        self._sign_head()

    def _sign_head(self) -> None:
        """A coordinator has the authority's key. Others keep an anchor as long as it is of their chain."""
        assert self.chain is not None
        at = self.anchor.head if self.anchor is not None else None
        if at is not None and at.step >= self.chain.first and not self._has(at):
            self.anchor = None
        head, snapshot = self.tip.head, self.snapshots[-1] if self.snapshots else None
        if signature := self._credentials.authorize(signed.head(head, snapshot)):
            self.anchor = Anchor(head, snapshot, signature)

    def told(self, anchor: Anchor | None) -> None:
        """Somebody says that the authority has signed a head, which may be of this chain."""
        if anchor is None or anchor == self.anchor or not self._has(anchor.head):
            return
        is_older = self.anchor is not None and supersedes(self.anchor.head, anchor.head)
        if not is_older and signed.is_anchor(anchor, self._credentials):
            self.anchor = anchor

    def _has(self, head: Head) -> bool:
        entry = self.chain.at(head.step) if self.chain is not None else None
        return head in [one.header.head for one in ([entry] if entry is not None else self._to_come)]

    @property
    def newest_snapshot(self) -> SnapshotName | None:
        """The newest one that this peer knows of."""
        known = [one for one in (self.tip.snapshot, *self.snapshots) if one is not None]
        return max(known, key=lambda one: one.step, default=None)

    def snapshot_made(self, snapshot: SnapshotName) -> None:
        """One more can be given."""
        self.snapshots.append(snapshot)
        self.snapshots.sort(key=lambda one: one.step)  # a rollback may have come in the meantime
        self._give_old_up()
        self._sign_head()

    def take_instead(self, snapshot: SnapshotName) -> None:
        """Give this one, in place of another of its step."""
        self.snapshots = [snapshot if one.step == snapshot.step else one for one in self.snapshots]
        self._sign_head()

    def forget_old(self, wanted: Collection[str]) -> None:
        """Drop what is older than the snapshots, and the chunks of the other rounds of the step that was just decided.

        At any other time there may be chunks of a round that goes on, for which this peer may have voted.
        """
        assert self.chain is not None
        self._give_old_up()
        if self.snapshots:
            oldest = min(self._updates_after, self.snapshots[0].step)
            self._updates = {step: digests for step, digests in self._updates.items() if step > oldest}
            self.chain.forget_before(oldest - quorum.WINDOW, self.chain.tip.step - self._headers)
        kept = {one.digest for one in self.snapshots}.union(wanted, [self.pinned] if self.pinned else [])
        gone = self._fetching.held.difference(kept, self._fetching.parts_of(kept), *self._updates.values())
        if gone:
            self._fetching.forget(gone)
            self._act(Forget(tuple(sorted(gone))))

    def _give_old_up(self) -> None:
        """Give no snapshots that newer ones stand for; their chunks go with the next step."""
        if len(self.snapshots) > 1:
            self._updates_after = self.snapshots[-2].step
        least = 2 if self._is_coordinator else 1
        while len(self.snapshots) > least and self._is_named(self.snapshots[1]):
            del self.snapshots[0]

    def _is_named(self, snapshot: SnapshotName) -> bool:
        """Whether a header of the chain says so, which others rely on."""
        return self.tip.snapshot is not None and snapshot.step <= self.tip.snapshot.step

    def on_want_log(self, sender: str, want: WantLog, now: float) -> None:
        """Tell what follows a peer's head, or a snapshot and what follows it, if this peer has it."""
        if self.chain is None or not self.snapshots:
            return
        following = self.chain.after(want.head, MOST_ENTRIES) if want.head is not None else None
        if following is not None and all(self._fetching.holds(one.header.needed) for one in following):
            self._send(sender, Log(tuple(fitting(following)), None, self.anchor))
            return
        # those of a coordinator are named by its authority
        named = [one for one in self.snapshots if self._is_coordinator or self._is_named(one)]
        self._send(sender, self._log_with((named or self.snapshots)[-1], want))

    def _log_with(self, snapshot: SnapshotName, want: WantLog) -> Log:
        """A snapshot, entries that voters are chosen by, and all since one that the reader takes for the run's.

        That is the anchor's, or the last one that it has itself, or has seen the proof of. Where these are too many,
        it gets the first of them.
        """
        assert self.chain is not None
        first, ours = snapshot.step - quorum.WINDOW, self.chain.head
        known = [self.anchor.head.step] if self.anchor is not None else []
        known += [shared_step(ours, want.head)] if want.head is not None else []
        known += [want.known.step] if want.known is not None and self._has(want.known) else []
        since = min(first, max((step for step in known if step >= self.chain.first), default=first))
        if since == first:
            return Log((*self.chain.since(first), *self._to_come), snapshot, self.anchor)
        following = self._from(since)
        entries = (next(following), *fitting(following, LONGEST))
        if entries[-1].header == self.tip:
            return Log((*entries, *self._to_come), snapshot, self.anchor)
        return Log(entries, None, self.anchor, goes_on=True)

    def _from(self, step: int) -> Iterator[Entry]:
        """Those from a step on, of which only some are unpacked at a time."""
        assert self.chain is not None
        tip = self.chain.tip.step
        for after in range(step - 1, tip, MOST_ENTRIES):
            yield from self.chain.between(after, min(after + MOST_ENTRIES, tip))


def fitting(entries: Iterable[Entry], room: int = ROOM) -> list[Entry]:
    """The first ones, as many as there is room for, and at least one."""
    found, size = list[Entry](), 0
    for entry in entries:
        size += _size(entry)
        if found and size > room:
            break
        found.append(entry)
    return found


def _size(entry: Entry) -> int:
    """Bytes, about."""
    proof = entry.certificate
    return len(entry.header.encoded) + sum(map(len, (*proof.votes, *proof.signatures))) + 1000 * len(proof.goodbyes)
