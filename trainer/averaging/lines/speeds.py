"""What a line carries, from what was said of it and what rounds have shown; each direction on its own.

Three rules:

- a word counts until something was measured. A peer that overstates its line is believed for one round;
- the median of the last three measurements counts, so that one bad round (somebody watched a film) changes nothing,
  and a line that has really become slower is known after two;
- a line that had to wait shows only that it carries at least so much. Such a measurement can raise the
  estimate and never lower it.

A cap that the volunteer has set is never exceeded.
"""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace

KEPT = 3  # measurements; the median of three is not moved by one of them
SHORTEST = 0.05  # seconds; what is shorter measures buffers of the system, not the line
FASTEST = 1e12  # bytes a second


@dataclass(frozen=True)
class Direction:
    """One direction of a line, in bytes a second. `observed` and `told` give the next one; nothing changes in place."""

    claim: float | None = None  # what was said of it, or what a probe has shown
    cap: float = math.inf  # what the volunteer allows
    measured: tuple[float, ...] = ()  # of the last rounds in which it was busy, the newest last
    at_least: float = 0.0  # what it has carried while it had to wait, since it was last seen busy

    @property
    def speed(self) -> float | None:
        """What to plan with; None while nothing is known."""
        known = _median(self.measured) if self.measured else self.claim
        if known is None and not self.at_least:
            return None if math.isinf(self.cap) else self.cap
        return min(max(known or 0.0, self.at_least), self.cap)

    def told(self, claim: float) -> "Direction":
        """With another word of its owner, or a new probe; measurements go before it.

        Raises:
            ValueError: it is no speed of a line.
        """
        if not 0.0 < claim <= FASTEST:
            raise ValueError(f"{claim:g} bytes a second is no speed of a line")
        return replace(self, claim=claim)

    def observed(self, carried: float, seconds: float, *, busy: bool) -> "Direction":
        """After a round in which `carried` bytes went through in `seconds`.

        Args:
            busy: whether the line was what everybody, or this peer, waited for; otherwise it might have carried more.
        """
        if seconds < SHORTEST or not 0.0 < carried < math.inf:
            return self
        speed = carried / seconds
        if busy:
            return replace(self, measured=(*self.measured, speed)[-KEPT:], at_least=0.0)
        return replace(self, at_least=max(self.at_least, speed))


def ease(upload: float) -> float:
    """How readily a line (bytes a second; 0: not known) gives away a whole state, from 0 to below 1.

    Lines that differ by less than a factor of two are alike: a crowd of newcomers should not ask one peer.
    """
    return max(0, int(upload).bit_length()) / 64.0


@dataclass(frozen=True)
class Line:
    """Both directions of a peer's line."""

    upload: Direction = Direction()
    download: Direction = Direction()


def _median(measured: Sequence[float]) -> float:
    """Of two the higher one: which of them was the bad round is not known yet, and the next one will tell."""
    return statistics.median_high(measured)
