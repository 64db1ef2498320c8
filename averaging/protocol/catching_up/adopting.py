"""One state for all processors: a peer whose arithmetic gives other bits takes over the snapshot that headers name.

Processors without the same vector instructions drift apart by some 2e-7 a step, so their snapshots of a step have other
digests. A peer that finds another snapshot named than its own fetches it. If the two are near, as numbers, a voter has
nothing against the header; once that is committed, the peer goes on from the named snapshot, as all others do. What was
not compared is objected to: a snapshot that is not near may be a state that was made up.
"""

from collections.abc import Iterable

from averaging.log.header import SnapshotName
from averaging.protocol.actions import Adopt, Compare
from averaging.protocol.catching_up.held_log import HeldLog
from averaging.protocol.fetching import Fetching
from averaging.protocol.session import Session


class Adopting:
    """Compares this peer's snapshots with those that headers name, and takes over the named ones."""

    def __init__(self, session: Session, log: HeldLog, fetching: Fetching):
        self._log, self._fetching, self._act = log, fetching, session.act
        self._snapshot_every = session.settings.snapshot_every
        self._near: set[SnapshotName] = set()  # that were compared with this peer's own ones
        self._proposed: SnapshotName | None = None  # the last one that was named and is another than this peer's own
        self._is_compared = False
        self._committed: SnapshotName | None = None  # to go on from, once it is here
        self.adopted = 0  # snapshots of others that this peer has gone on from

    @property
    def accepted(self) -> set[SnapshotName]:
        """Those that this peer had, and those that are near to them."""
        return self._near.union(self._log.snapshots)

    def wanted(self) -> set[str]:
        """Digests of what is being fetched, or was fetched for this."""
        return {one.digest for one in (self._proposed, self._committed) if one is not None}

    def proposed(self, name: SnapshotName | None, sources: Iterable[str], now: float) -> None:
        """A header that may come to be committed names a snapshot."""
        if name is None or name in self._near or not self._is_other(name):
            return
        if name != self._proposed:
            before, self._proposed, self._is_compared = self.wanted(), name, False
            self._fetching.want_instead(before, self.wanted())
        self._fetching.want_snapshot(name.digest, sources, now)  # again: peers that came since may have it

    def committed(self, name: SnapshotName | None, sources: Iterable[str], now: float) -> None:
        """A header that is committed names a snapshot."""
        self._near = {one for one in self._near if self._own(one.step) is not None}
        if self._proposed is not None and not self._is_other(self._proposed):
            self._proposed = None
        if name is not None and self._is_other(name):
            self._committed = name
            self._fetching.want_snapshot(name.digest, sources, now)

    def go_on(self) -> None:
        """Compare, or take over, what is here."""
        adopted, other = self._committed, self._proposed
        if adopted is not None and self._fetching.holds([adopted.digest]):
            self._committed = None
            chain, newest = self._log.chain, self._log.snapshots[-1]
            assert chain is not None
            is_newest = newest.step == adopted.step and chain.tip.step < adopted.step + self._snapshot_every
            if is_newest and newest != adopted:
                self.adopted += 1
                self._log.take_instead(adopted)
                self._act(Adopt(adopted, tuple(chain.since(adopted.step + 1))))
        elif other is not None and not self._is_compared and self._fetching.holds([other.digest]):
            self._is_compared = True
            steps = [one.step for one in self._log.snapshots]
            if other.step in steps[1:]:
                own = steps.index(other.step)
                before, mine = self._log.snapshots[own - 1 : own + 1]
                self._act(Compare(other, mine, before))

    def compared(self, other: SnapshotName, *, is_near: bool) -> None:
        """The process has done a `Compare`."""
        if is_near:
            self._near.add(other)

    def _is_other(self, name: SnapshotName) -> bool:
        own = self._own(name.step)
        return own is not None and own != name

    def _own(self, step: int) -> SnapshotName | None:
        return next((one for one in self._log.snapshots if one.step == step), None)
