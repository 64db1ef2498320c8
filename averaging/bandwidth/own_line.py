"""A peer's own line: what it carries in each direction, and what a volunteer lets the run take of it."""

import asyncio
import math
import time
from collections.abc import Callable
from dataclasses import dataclass

from averaging.bandwidth.cap import MEGABIT, Cap
from averaging.bandwidth.meter import Meter
from averaging.protocol.messages import Bandwidth


@dataclass(frozen=True)
class Caps:
    """Mbit/s; None: as much as the line carries."""

    upload: float | None = None
    download: float | None = None


NO_CAPS = Caps()


class Direction:
    """One direction of a line. `cap` in Mbit/s."""

    def __init__(self, cap: float | None, clock: Callable[[], float]):
        self.cap = Cap(math.inf if cap is None else cap * MEGABIT, clock)
        self.meter = Meter(clock)

    async def turn(self, size: int, *, is_urgent: bool) -> float:
        """Wait until so many bytes are within the cap; returns for how many seconds.

        What is urgent does not wait; it makes the others wait longer.
        """
        seconds = self.cap.reserve(size)
        if not seconds or is_urgent:
            return 0.0
        await asyncio.sleep(seconds)
        return seconds

    def at_most(self, speed: float) -> float:
        """So many bytes a second, or what the cap leaves of them."""
        return min(speed, self.cap.speed)


class OwnLine:
    """Of a peer, whose sessions share it one after the other. `clock` gives seconds."""

    def __init__(self, caps: Caps = NO_CAPS, clock: Callable[[], float] = time.monotonic):
        self.upload, self.download = Direction(caps.upload, clock), Direction(caps.download, clock)

    def bandwidth(self) -> Bandwidth | None:
        """What to tell others; None while nothing is known.

        What comes in may wait for the lines of its senders, so a download was never seen to carry less than the upload.
        A newcomer has only loaded a snapshot, and few lines carry more up than down.
        """
        up, down = self.upload.meter.speed, self.download.meter.speed
        upload = self.upload.at_most(up or down or math.inf)
        download = self.download.at_most(max(down or 0.0, upload))
        if math.isinf(download):
            return None
        return Bandwidth((upload if math.isfinite(upload) else download) / MEGABIT, download / MEGABIT)
