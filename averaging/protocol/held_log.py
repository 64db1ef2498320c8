"""What a peer holds of the log: its chain, the chunks of updates, snapshots; and what of it others may have."""

from collections.abc import Callable, Collection, Iterable

from averaging.log.chain import Chain
from averaging.log.header import Entry, Head, Header, SnapshotName
from averaging.protocol import quorum
from averaging.protocol.actions import Action, Forget
from averaging.protocol.fetching import Fetching
from averaging.protocol.messages import Log, Message, WantLog

MOST_ENTRIES = 64  # of the log in an answer to a peer that is a little behind


class HeldLog:
    """The newest snapshot (the coordinator: two), the updates since the last but one, and headers: the coordinator all
    of them, others those that a coordinator may have missed. A peer that has loaded a snapshot over a thin line goes on
    with updates although there is a newer snapshot by then.
    """

    def __init__(
        self,
        fetching: Fetching,
        send: Callable[[str, Message], None],
        act: Callable[[Action], None],
        headers: int | None,
    ):
        """`headers`: that are kept; None: all."""
        self.chain: Chain | None = None  # None: the peer has no state yet
        self.snapshots: list[SnapshotName] = []  # that can be given, oldest first
        self._fetching, self._send, self._act, self._most_headers = fetching, send, act, headers
        self.pinned: str | None = None  # digest of a snapshot that the authority wants back
        self._chunks: set[str] = set()  # of the updates that can be given
        self._forgotten = -1  # step up to which there are none
        self._updates_after = -1  # the last snapshot but one

    @property
    def head(self) -> Head | None:
        """Where this peer stands."""
        return None if self.chain is None else self.chain.tip.head

    @property
    def tip(self) -> Header:
        """The newest header; there must be one."""
        assert self.chain is not None
        return self.chain.tip

    def start(self, chain: Chain, snapshots: Iterable[SnapshotName]) -> None:
        """Go on from a state: that of the newest header."""
        self.chain, self.snapshots = chain, list(snapshots)
        self._chunks = {digest for entry in chain.since(self.snapshots[0].step + 1) for digest in entry.header.needed}

    def append(self, entry: Entry) -> None:
        """Take in the next committed header, whose chunks are here."""
        assert self.chain is not None
        self.chain.append(entry)
        self._chunks.update(entry.header.needed)

    @property
    def newest_snapshot(self) -> SnapshotName | None:
        """The newest one that this peer knows of."""
        known = [one for one in (self.tip.snapshot, *self.snapshots) if one is not None]
        return max(known, key=lambda one: one.step, default=None)

    def forget_old(self, wanted: Collection[str], *, is_decided: bool = True) -> None:
        """Drop what is older than the snapshots, except for what is wanted.

        When a step was just decided, the chunks of its other rounds are dropped, too; at any other time there may be
        chunks of a round that goes on, for which this peer may have voted.
        """
        assert self.chain is not None
        old: set[str] = set()
        if self.snapshots:
            if len(self.snapshots) > 1:
                self._updates_after = self.snapshots[-2].step
            kept_snapshots = self.snapshots[-2 if self._most_headers is None else -1 :]
            old = {one.digest for one in self.snapshots if one not in kept_snapshots}
            old |= self._fetching.parts_of(old)
            self.snapshots = kept_snapshots
            oldest = min(self._updates_after, self.snapshots[0].step)
            for entry in self.chain.between(self._forgotten, oldest):
                self._chunks.difference_update(entry.header.needed)
                old.update(entry.header.needed)
            self._forgotten = oldest
            if self._most_headers is not None:
                self.chain.forget_before(min(oldest - quorum.WINDOW, self.chain.tip.step - self._most_headers))
        kept = {one.digest for one in self.snapshots}.union(wanted, [self.pinned] if self.pinned else [])
        gone = self._fetching.held - self._chunks - kept - self._fetching.parts_of(kept)
        if not is_decided:
            gone &= old
        if gone:
            self._fetching.forget(gone)
            self._act(Forget(tuple(sorted(gone))))

    def on_want_log(self, sender: str, want: WantLog, now: float) -> None:
        """Tell what follows a peer's head, or a snapshot and what follows it, if this peer has it."""
        if self.chain is None or not self.snapshots:
            return
        following = self.chain.after(want.after, MOST_ENTRIES) if want.after is not None else None
        if following is not None and all(self._fetching.holds(one.header.needed) for one in following):
            self._send(sender, Log(tuple(following), None))
            return
        newest = self.snapshots[-1]
        self._send(sender, Log(tuple(self.chain.since(newest.step - quorum.WINDOW)), newest))
