"""Who else is there: whom a peer can make a group with, whom it misses, and whether the others fell back for good."""

import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from hivemind.optim.progress_tracker import LocalTrainingProgress

LATELY = 15.0  # seconds; peers tell their progress at least every ten
NEAR = 2  # global steps; while a round lasts a peer tells the step before it


@dataclass(frozen=True)
class Other:
    """Another peer's progress, and when it told that (DHT time, seconds)."""

    progress: LocalTrainingProgress
    told_at: float


class Company:
    """The other peers, by what they tell of their progress."""

    def __init__(self, lifetime: float, longest_round: float):
        """Nobody yet.

        Args:
            lifetime: seconds for which a peer's record stays.
            longest_round: seconds.
        """
        self._lifetime, self._longest_round = lifetime, longest_round
        self.others: list[Other] = []
        self._missed: set[bytes] = set()  # subkeys of the others at the last look with any, who have not said goodbye
        self._ahead_since: float | None = None  # monotonic seconds; one step ahead of those who hold the state

    def look(self, entries: Mapping[bytes, Any], said_goodbye: Collection[bytes]) -> None:
        """Take in the others' records, as they are in the DHT by subkey, and the subkeys of those who have left."""
        self.others = [
            Other(LocalTrainingProgress.parse_obj(entry.value), entry.expiration_time - self._lifetime)
            for entry in entries.values()
        ]
        self._missed = set(entries) or self._missed.difference(said_goodbye)

    @property
    def reachable(self) -> list[LocalTrainingProgress]:
        """Those who are not in client mode."""
        return [other.progress for other in self.others if not other.progress.client_mode]

    @property
    def is_gone(self) -> bool:
        """Whether nobody is there and somebody is missed: they died, or this peer is cut off."""
        return not self.others and bool(self._missed)

    def at(self, step: int, now: float) -> int:
        """How many told lately that they are at this global step, or ahead of it; `now` is DHT time, seconds."""
        return sum(other.progress.epoch >= step and other.told_at >= now - LATELY for other in self.others)

    def disputes(self, step: int, now: float) -> bool:
        """Whether as many told lately that they are a step short of this one as that they are there; `now` as above."""
        epochs = [other.progress.epoch for other in self.others if other.told_at >= now - LATELY]
        return sum(epoch >= step for epoch in epochs) <= epochs.count(step - 1)

    def near(self, step: int, now: float) -> list[bytes]:
        """Ids of those who told lately that they are at this global step or will soon be; `now` as above."""
        return [
            bytes(other.progress.peer_id)
            for other in self.others
            if other.progress.epoch >= step - NEAR and other.told_at >= now - LATELY
        ]

    def fell_back(self, step: int) -> bool:
        """Whether those who hold the state started again from one that is older than `step`.

        While a round lasts they may be one global step behind.
        """
        steps = step - max((one.epoch for one in self.reachable), default=step)
        if steps != 1:
            self._ahead_since = None
        elif self._ahead_since is None:
            self._ahead_since = time.monotonic()
        waited = 0.0 if self._ahead_since is None else time.monotonic() - self._ahead_since
        return steps > 1 or waited > self._longest_round
