"""How many bytes of bulk are on their way to a peer.

The bytes that a sender hands over wait in buffers of the system, in front of its line, and whatever is sent after
them, votes too, waits behind them, and so do the bytes of its other streams. So only as much is handed over as waits
for some tenths of a second, as in LEDBAT (RFC 6817): acknowledgements tell by the receiver's clock when bytes came, and
what that is more than at best was waiting. It does not matter how long the acknowledgements take: they may wait in
front of the receiver's line, behind what that sends. Each stream sees how long all of them wait, so they share a line
without knowing of each other, and a slow receiver holds up its own stream alone.
"""

import asyncio
import math
from collections import deque
from collections.abc import Callable

from averaging.bandwidth import Meter
from averaging.transport.wire_format import SLICE

SMALLEST = 8 * 2**10  # bytes; as many are on their way when a stream begins
LARGEST = 32 * 2**20
QUICK, SLOW = 0.15, 0.25  # seconds that bytes wait
LASTING = 0.1  # seconds for which they wait for so long before a window shrinks
REST = 1.0  # seconds without any on their way, after which nothing is known of the line
PERIOD = 60.0  # seconds of which the best time is remembered ...
KEPT = 10  # ... for so many periods: clocks drift


class Window:
    """The window of one stream. Stretches in which it is full tell the meter what the line carries."""

    def __init__(self, clock: Callable[[], float], meter: Meter):
        self._clock, self._meter = clock, meter
        self._is_full = self._is_waited_for = False
        self._sent: deque[tuple[int, float]] = deque()  # sizes and times
        self._freed = asyncio.Event()
        self._quickest: deque[tuple[float, float]] = deque()  # period, and seconds between the two clocks
        self._rests_since = self._shrunk_at = float("-inf")
        self._slow_since = math.inf  # by the receiver's clock
        self.size, self.in_flight = SMALLEST, 0  # bytes

    async def room(self, wanted: int = 1) -> None:
        """Wait until so many bytes, at most a slice, fit into the window; an empty one has room for any."""
        while self.in_flight > 0 and self.in_flight + min(wanted, self.slice) > self.size:
            self._is_waited_for = True
            self._measure()
            self._freed.clear()
            await self._freed.wait()
        self._is_waited_for = False
        self._measure()

    @property
    def slice(self) -> int:
        """Bytes that are handed over at once: few on a thin line, so that all streams move."""
        return min(max(self.size // 4, SMALLEST), SLICE)

    def sent(self, size: int) -> None:
        """A slice was handed over."""
        now = self._clock()
        if not self._sent and now > self._rests_since + REST:
            self.size = SMALLEST
        self._sent.append((size, now))
        self.in_flight += size
        self._meter.under_way(size)
        self._measure()

    def received(self, came: float) -> bool:
        """The oldest slice has arrived, at a time of the receiver's clock. False if there was none."""
        if not self._sent:
            return False
        was_needed = 2 * self.in_flight >= self.size
        size, at = self._sent.popleft()
        self.in_flight -= size
        self._meter.under_way(-size)
        self._meter.carried(size)
        self._rests_since = now = self._clock()
        waited = self._waited(came - at, now // PERIOD)
        if waited < QUICK and was_needed:
            self.size = min(self.size + round(size * (1.0 - waited / QUICK)), LARGEST)
        if waited <= SLOW:
            self._slow_since = math.inf
        else:
            self._slow_since = min(self._slow_since, came)
            # a receiver that was busy takes in much at once; and slices of before tell of the window as it was
            if came >= self._slow_since + LASTING and at >= self._shrunk_at:
                self.size, self._shrunk_at = max(self.size // 2, SMALLEST), now
        self._measure()
        self._freed.set()
        return True

    def close(self) -> None:
        """Nothing more will arrive."""
        self._meter.under_way(-self.in_flight)
        self._sent.clear()
        self.in_flight, self._is_waited_for = 0, False
        self._measure()

    def _waited(self, seconds: float, period: float) -> float:
        """More than at best, which is what the way takes and the clocks differ by."""
        while self._quickest and self._quickest[0][0] <= period - KEPT:
            self._quickest.popleft()
        if self._quickest and self._quickest[-1][0] == period:
            seconds_at_best = min(seconds, self._quickest.pop()[1])
        else:
            seconds_at_best = seconds
        self._quickest.append((period, seconds_at_best))
        return seconds - min(best for _, best in self._quickest)

    def _measure(self) -> None:
        before, self._is_full = self._is_full, self._is_waited_for or self.in_flight >= self.size
        if self._is_full and not before:
            self._meter.begin()
        elif before and not self._is_full:
            self._meter.end()

    @property
    def waits_since(self) -> float:
        """When the oldest slice was sent that has not arrived; infinite if there is none."""
        return self._sent[0][1] if self._sent else float("inf")
