"""How fast one direction of a peer's line is, from what it carries while more is waiting than it takes at once.

A stretch begins when something has to wait, and its bytes are counted as they arrive: its mean speed at any time is no
more than what the line carries. The fastest one of the last minutes counts, because nobody sees at this end that a thin
line at the other side was waited for.
"""

import math
from collections import deque
from collections.abc import Callable

PAUSE = 0.1  # seconds without anything that waits, after which a stretch is over
ENOUGH = 2**20  # bytes of a stretch that say something, more than routers let pass at once ...
LONG = 2.0  # ... or seconds of it
SHORTEST = 0.05  # seconds; less is a matter of buffers
PERIOD = 60.0  # seconds of a period, and of the longest stretch
KEPT = 5  # periods in which something was measured; the fastest stretch of all of them counts


class Meter:
    """Measures all streams of one direction together. `clock` gives seconds."""

    def __init__(self, clock: Callable[[], float]):
        self._clock = clock
        self._waiting = 0  # streams
        self._under_way = 0  # bytes
        self._since = self._until = -math.inf  # the stretch; its end while nothing waits
        self._carried = 0  # bytes in it
        self._at_work_since = -math.inf  # without a moment in which nothing was under way
        self._carried_at_work = 0
        self._best: deque[tuple[float, float]] = deque(maxlen=KEPT)  # period, bytes a second

    @property
    def speed(self) -> float | None:
        """Bytes a second; None while nothing is known."""
        return max((speed for _, speed in self._best), default=None)

    def begin(self) -> None:
        """One more stream has something that waits for the line."""
        now = self._clock()
        if not self._waiting and now > self._until + PAUSE:
            if now <= self._at_work_since + PERIOD:
                self._since, self._carried = self._at_work_since, self._carried_at_work
            else:
                self._begin_stretch(now)
        self._waiting += 1

    def end(self) -> None:
        """One stream less."""
        self._waiting -= 1
        self._until = self._clock()

    def under_way(self, change: int) -> None:
        """So many bytes more were handed over, and have not arrived; or fewer."""
        if not self._under_way:
            self._at_work_since, self._carried_at_work = self._clock(), 0
        self._under_way += change

    def carried(self, size: int) -> None:
        """So many bytes have arrived at the other end of any stream."""
        now = self._clock()
        self._carried_at_work += size
        if not self._waiting and now > self._until + PAUSE:
            return
        self._carried += size
        seconds = now - self._since
        if self._carried >= ENOUGH or (seconds >= LONG and self._carried > 0):
            self._learn(self._carried / max(seconds, SHORTEST), now // PERIOD)
        if seconds >= PERIOD:
            self._begin_stretch(now)

    def _begin_stretch(self, now: float) -> None:
        self._since, self._carried = now, -self._under_way  # which may have been carried in part

    def _learn(self, speed: float, period: float) -> None:
        if self._best and self._best[-1][0] == period:
            speed = max(speed, self._best.pop()[1])
        self._best.append((period, speed))
