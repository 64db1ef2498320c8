"""States as symbols: the digest of all that was applied, with moments that lose something when they are encoded.

Updates are symbols, too: a chunk names the batches that went into it.
"""

import functools
import hashlib
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, replace
from typing import Any

from averaging.log.header import Entry, Header, HeaderKind, SnapshotName


@functools.lru_cache(maxsize=256)
def digest_of(value: Hashable) -> str:
    """A short digest of a plain value."""
    return hashlib.blake2b(repr(value).encode(), digest_size=12).hexdigest()


@dataclass(frozen=True)
class State:
    """Parameters and the optimizer's moments after a global step."""

    parameters: str
    moments: str
    drift: str = ""  # of a processor that computes other bits, and of those that go on from its snapshots

    def stepped(self, update: tuple[Any, ...], *, drifts: bool) -> "State":
        """The state after an update."""
        drift = digest_of((self.drift, update)) if drifts else self.drift
        exact = self.exact
        return State(digest_of((exact, update)), digest_of((exact.moments, update)), drift)

    @property
    def exact(self) -> "State":
        """The state to which it is near."""
        return replace(self, drift="")

    def rebased(self) -> "State":
        """Moments as they are after they were encoded and decoded; a second time changes nothing."""
        coarse = self.moments if self.moments.startswith("coarse ") else f"coarse {self.moments[:20]}"
        return replace(self, moments=coarse)


FIRST = State("zero", "coarse zero")


class Replay:
    """From the log to the state of one process, and what it holds for that.

    Args:
        snapshot_every: steps between two snapshots.
        drifts: whether its processor computes other bits.
    """

    def __init__(self, snapshot_every: int, drifts: bool):
        self._snapshot_every, self._drifts = snapshot_every, drifts
        self.contents: dict[str, Any] = {}  # chunks and snapshots, by digest
        self.state: State | None = None

    def update_of(self, header: Header) -> tuple[Any, ...]:
        """The content of an update, in the order of the vector."""
        return tuple(self.contents[digest] for digest in header.chunks)

    def rebase(self, state: State) -> State:
        """What every peer does at a snapshot step."""
        return state.rebased()

    def apply(self, header: Header) -> None:
        """`state[s + 1] = step(state[s], update[s])`, or what a rollback names."""
        assert self.state is not None
        self.state = self._after(self.state, header)

    def restore(self, base: SnapshotName, following: Iterable[Entry] = ()) -> None:
        """Load a snapshot, and apply what follows it."""
        state: State = self.contents[base.digest]
        for entry in following:
            state = self._after(state, entry.header)
        self.state = state

    def is_near(self, other: SnapshotName, own: SnapshotName, before: SnapshotName) -> bool:
        """Whether two snapshots differ by the arithmetic of processors alone; for that it needs the one before, too."""
        one, mine, _ = (self.contents[name.digest] for name in (other, own, before))
        return bool(one.exact == mine.exact)

    def make_snapshot(self) -> str:
        """Encode the state, and hold that; its digest."""
        assert self.state is not None
        content = self.state.rebased()
        digest = digest_of(content)
        self.contents[digest] = content
        return digest

    def _after(self, state: State, header: Header) -> State:
        if header.kind is HeaderKind.ROLLBACK:
            assert header.snapshot is not None
            loaded: State = self.contents[header.snapshot.digest]
            return loaded
        after = state.stepped(self.update_of(header), drifts=self._drifts) if header.parts else state
        return self.rebase(after) if header.step % self._snapshot_every == 0 else after
