"""States as symbols: the digest of all that was applied, with moments that lose something when they are encoded."""

import functools
import hashlib
from collections.abc import Hashable
from dataclasses import dataclass, replace
from typing import Any


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
