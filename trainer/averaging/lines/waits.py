"""Whom a peer waits for in a round: who is the last to send pieces of its part, and whose mean is the last to come."""

from collections import defaultdict
from collections.abc import Mapping
from typing import TypeVar

P = TypeVar("P")


class Arrivals:
    """When the pieces of a part come from its senders; each is averaged when it has come from all."""

    def __init__(self, senders: int, now: float):
        """Nothing has come yet; `now` in seconds, as below."""
        self._senders, self._averaged_at = senders, now
        self._come: dict[int, tuple[int, float]] = {}  # by piece: from how many, and when from the newest
        self.alone: defaultdict[int, float] = defaultdict(float)  # seconds in which one sender alone was missing

    def come(self, sender: int, piece: int, now: float) -> None:
        """A piece has come from a sender."""
        count, newest = self._come.pop(piece, (0, now))
        if count + 1 < self._senders:
            self._come[piece] = count + 1, now
            return
        self.alone[sender] += now - max(newest, self._averaged_at)
        self._averaged_at = now


def last_alone(ended: Mapping[P, float], began: float) -> tuple[P, float] | None:
    """Whose mean came last, and for how many seconds after all others; None if there are none.

    Args:
        ended: when the last piece of the mean of each part had come.
        began: when the round did.
    """
    if not ended:
        return None
    last = max(ended, key=ended.__getitem__)
    return last, ended[last] - max((at for one, at in ended.items() if one != last), default=began)
