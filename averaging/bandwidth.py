"""A peer's own line: what it carries in each direction, and what its volunteer lets the run take of it."""

import asyncio
import math
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from averaging.protocol.messages import Bandwidth

MEGABIT = 125_000.0  # bytes
AHEAD = 5.0  # seconds of the cap that urgent messages may be ahead of it
BURST = 0.25  # seconds of the cap that may go at once, since no event loop is on time to the millisecond

PAUSE = 0.1  # seconds without anything that waits, after which a stretch is over
ENOUGH = 2**20  # bytes of a stretch that say something, more than routers let pass at once ...
LONG = 2.0  # ... or seconds of it
SHORTEST = 0.05  # seconds; less is a matter of buffers
PERIOD = 60.0  # seconds of a period, and of the longest stretch
KEPT = 5  # periods in which something was measured; the fastest stretch of all of them counts


class Meter:
    """How fast one direction is, from what all streams carry while more is waiting than the line takes at once.

    A stretch begins when something has to wait, and its bytes are counted as they arrive: its mean speed at any time is
    no more than what the line carries. The fastest one of the last minutes counts, because nobody sees at this end that
    a thin line at the other side was waited for. `clock` gives seconds.
    """

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


@dataclass(frozen=True)
class Caps:
    """Mbit/s; None: as much as the line carries."""

    upload: float | None = None
    download: float | None = None


NO_CAPS = Caps()


class Direction:
    """One direction of a line. Its cap is a token bucket: streams have their turns in the order in which they ask.

    Args:
        cap: Mbit/s; None: as much as the line carries.
        clock: seconds.
    """

    def __init__(self, cap: float | None, clock: Callable[[], float]):
        self.cap = math.inf if cap is None else cap * MEGABIT  # bytes a second
        self._clock = clock
        self._free_at = -math.inf  # when all that had its turn is within the cap
        self._urgent_free_at = -math.inf  # the same, for urgent bytes alone
        self.meter = Meter(clock)
        self.total = 0  # bytes that had their turn

    async def turn(self, size: int, *, is_urgent: bool) -> float:
        """Wait until so many bytes are within the cap; returns for how many seconds.

        Urgent bytes wait for other urgent bytes alone, and only once those are more than `AHEAD` seconds ahead of the
        cap; they make all others wait longer.
        """
        self.total += size
        now = self._clock()
        begin = max(now - BURST, self._free_at)
        self._free_at = begin + size / self.cap
        if is_urgent:
            begin = max(now - AHEAD, self._urgent_free_at)
            self._urgent_free_at = begin + size / self.cap
        if begin <= now:
            return 0.0
        await asyncio.sleep(begin - now)
        return begin - now


class OwnLine:
    """Of a peer, whose sessions share it one after the other. `clock` gives seconds."""

    def __init__(self, caps: Caps = NO_CAPS, clock: Callable[[], float] = time.monotonic):
        self.upload, self.download = Direction(caps.upload, clock), Direction(caps.download, clock)

    @property
    def traffic(self) -> int:
        """Bytes that streams have carried, in both directions."""
        return self.upload.total + self.download.total

    def bandwidth(self) -> Bandwidth | None:
        """What to tell others; None while nothing is known.

        What comes in may wait for the lines of its senders, so a download was never seen to carry less than the upload.
        A newcomer has only loaded a snapshot, and few lines carry more up than down.
        """
        up, down = self.upload.meter.speed, self.download.meter.speed
        upload = min(up or down or math.inf, self.upload.cap)
        download = min(max(down or 0.0, upload), self.download.cap)
        if math.isinf(download):
            return None
        return Bandwidth((upload if math.isfinite(upload) else download) / MEGABIT, download / MEGABIT)
