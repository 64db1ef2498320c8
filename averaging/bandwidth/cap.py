"""A token bucket: how much of one direction of its line a volunteer lets the run take."""

import math
from collections.abc import Callable

MEGABIT = 125_000.0  # bytes
BURST = 0.25  # seconds of the cap that may go at once, since no event loop is on time to the millisecond


class Cap:
    """Streams share it, and have their turns in the order in which they ask.

    Args:
        speed: bytes a second; infinite where there is no cap.
        clock: seconds.
    """

    def __init__(self, speed: float, clock: Callable[[], float]):
        self.speed, self._clock = speed, clock
        self._free_at = -math.inf  # when all that was reserved is within the cap

    def reserve(self, size: int) -> float:
        """Seconds to wait with so many bytes; those that do not wait make all that come after them wait longer."""
        now = self._clock()
        begin = max(now - BURST, self._free_at)
        self._free_at = begin + size / self.speed
        return max(0.0, begin - now)

    @property
    def is_set(self) -> bool:
        """Whether there is one."""
        return math.isfinite(self.speed)
