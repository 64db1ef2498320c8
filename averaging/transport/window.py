"""How many bytes of bulk are on their way to a peer.

The bytes that a sender hands over wait in buffers of the system, in front of its line, and whatever is sent after
them, votes too, waits behind them. So only as much is handed over as the line carries in about half a second, which
the acknowledgements tell: a window that doubles while they come quickly, and halves when they take long.
"""

import asyncio
from collections import deque
from collections.abc import Callable

from averaging.bandwidth.meter import Meter

FIRST = 512 * 2**10  # bytes
SMALLEST = 128 * 2**10
LARGEST = 32 * 2**20
QUICK, SLOW = 0.3, 1.0  # seconds for an acknowledgement


class Window:
    """Of one stream. Stretches in which it is full tell the meter what the line carries."""

    def __init__(self, clock: Callable[[], float], meter: Meter):
        self._clock, self._meter = clock, meter
        self._is_full = False
        self._sent: deque[tuple[int, float]] = deque()  # sizes and times
        self._freed = asyncio.Event()
        self.size, self.in_flight = FIRST, 0  # bytes

    async def room(self) -> None:
        """Wait until something may be sent. One message may be larger than the window."""
        while self.in_flight >= self.size:
            self._freed.clear()
            await self._freed.wait()

    def sent(self, size: int) -> None:
        """A message was handed over."""
        self._sent.append((size, self._clock()))
        self.in_flight += size
        self._meter.under_way(size)
        self._measure()

    def received(self) -> bool:
        """The oldest message has arrived. False if there was none."""
        if not self._sent:
            return False
        was_full = self.in_flight >= self.size
        size, at = self._sent.popleft()
        self.in_flight -= size
        self._meter.under_way(-size)
        self._meter.carried(size)
        seconds = self._clock() - at
        if seconds < QUICK and was_full:
            self.size = min(2 * self.size, LARGEST)
        elif seconds > SLOW:
            self.size = max(self.size // 2, SMALLEST)
        self._measure()
        self._freed.set()
        return True

    def close(self) -> None:
        """Nothing more will arrive."""
        self._meter.under_way(-self.in_flight)
        self._sent.clear()
        self.in_flight = 0
        self._measure()

    def _measure(self) -> None:
        before, self._is_full = self._is_full, self.in_flight >= self.size
        if self._is_full and not before:
            self._meter.begin()
        elif before and not self._is_full:
            self._meter.end()

    @property
    def waits_since(self) -> float:
        """When the oldest message was sent that has not arrived; infinite if there is none."""
        return self._sent[0][1] if self._sent else float("inf")
