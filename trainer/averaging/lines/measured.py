"""What this peer's line carries, measured in every round of averaging from the kernel's books (`sockets.py`).

A round is sampled; what counts of it is its fastest stretch, in each direction. Over the whole round most lines wait
for the thinnest one, but at its beginning everybody sends as fast as the line allows. A stretch is long enough if a
burst that a router lets pass, or a packet that was lost and confirms others behind it, does not matter much. All
peers measure in this one way, so that lines that are alike look alike.
"""

import asyncio
import contextlib
import math
import multiprocessing
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from itertools import pairwise

from hivemind.p2p import P2P
from hivemind.utils import get_logger

from trainer.averaging.lines.caps import Caps
from trainer.averaging.lines.sockets import Connection, connections, listener
from trainer.averaging.lines.speeds import KEPT, Direction, Line

logger = get_logger(__name__)

SAMPLED_EVERY = 0.1  # seconds; a look at the books takes about one thousandth
STRETCH_BYTES = 2**20  # a stretch has so many bytes and lasts STRETCH_LEAST seconds ...
STRETCH_LEAST = 0.3
STRETCH_MOST = 2.0  # ... or lasts so long
IDLE_BYTES = 200_000  # fewer in a stretch of a round that did not wait: there was little to carry, which says nothing
BUSY = 0.5  # fraction of a stretch in which data has to wait for the line
STANDSTILL = 0.5  # seconds in which nothing arrives at either end though something was sent: a line is cut, not thin
_NOTHING_KNOWN = Line()
_NUMBERS = KEPT + 1  # of a direction


class Source(Enum):
    """What the line has carried while it was measured."""

    ROUND = "a round"
    DOWNLOAD = "a state: it says nothing of the upload"
    PROBE = "a probe: it says something of the upload, if data had to wait for the line"


@dataclass(frozen=True)
class Sample:
    """The books at one moment of a round."""

    time: float  # seconds
    sent: int  # bytes since the round began
    received: int  # bytes
    waited: bool  # for the line, since the last sample: there was more to send, and the other side had room for it
    stood_still: bool = False  # nothing has arrived for `STANDSTILL` though something was on its way


@dataclass(frozen=True)
class Stretch:
    """The fastest part of a round in one direction."""

    carried: float  # bytes
    seconds: float
    busy: bool  # data waited for the line

    @property
    def speed(self) -> float:
        """Bytes a second."""
        return self.carried / self.seconds


class Books:
    """Adds up what connections have carried; they come and go."""

    def __init__(self, connections: Sequence[Connection], now: float):
        self._last = {one.cookie: one for one in connections}
        self.samples = [Sample(now, 0, 0, False)]
        self._moved = now  # when something last arrived at either end, or nothing was on its way

    def add(self, connections: Sequence[Connection], now: float) -> None:
        """Another look at them."""
        newest, sent, received, waited, under_way = self.samples[-1], 0, 0, False, False
        for one in connections:
            before = self._last.get(one.cookie) or Connection(one.cookie, 0, 0, 0, 0, 0.0)
            sent += max(0, one.sent - before.sent)
            received += max(0, one.received - before.received)
            no_room = one.receiver_limited - before.receiver_limited
            waited |= bool(one.waiting and before.waiting) and no_room < (now - newest.time) / 2.0
            under_way |= bool((one.waiting or one.unconfirmed) and (before.waiting or before.unconfirmed))
            self._last[one.cookie] = one
        if sent or received or not under_way:
            self._moved = now
        stood_still = now - self._moved >= STANDSTILL
        self.samples.append(Sample(now, newest.sent + sent, newest.received + received, waited, stood_still))


def fastest_stretch(samples: Sequence[Sample], count: Callable[[Sample], int]) -> Stretch | None:
    """The fastest one, of what `count` says of each sample, without a standstill; None if there is none so long."""
    fastest, end, waited, still = None, 0, [0.0], [0]
    for before, after in pairwise(samples):
        waited.append(waited[-1] + (after.time - before.time) * after.waited)
        still.append(still[-1] + after.stood_still)
    for start, first in enumerate(samples):
        while end < len(samples) and not _is_enough(count(samples[end]) - count(first), samples[end].time - first.time):
            end += 1
        if end == len(samples):
            break
        if still[end] > still[start]:
            continue
        seconds = samples[end].time - first.time
        busy = waited[end] - waited[start] >= BUSY * seconds
        stretch = Stretch(count(samples[end]) - count(first), seconds, busy)
        if fastest is None or stretch.speed > fastest.speed:
            fastest = stretch
    return fastest


def _is_enough(carried: int, seconds: float) -> bool:
    return seconds >= STRETCH_MOST or (carried >= STRETCH_BYTES and seconds >= STRETCH_LEAST)


class OwnLine:
    """What is known of this peer's line.

    Its averagers share it, each a process of its own that was forked when this had been made.
    """

    def __init__(self, line: Line = _NOTHING_KNOWN):
        """`line` is what is known without a measurement, caps among it; measurements in it are taken over."""
        self._without = line
        self._shared = multiprocessing.Array("d", 2 * _NUMBERS)
        self._keep(line)
        self._daemon: int | None = None

    @classmethod
    def within(cls, caps: Caps) -> "OwnLine":
        """A line of which nothing is known but what its volunteer allows."""
        upload, download = (Direction(cap=cap.speed if cap else math.inf) for cap in (caps.upload, caps.download))
        return cls(Line(upload, download))

    @property
    def line(self) -> Line:
        """As it is known now."""
        with self._shared.get_lock():
            up, down = self._shared[:_NUMBERS], self._shared[_NUMBERS:]
        return Line(_with_numbers(self._without.upload, up), _with_numbers(self._without.download, down))

    def _keep(self, line: Line) -> None:
        self._shared[:] = [*_numbers(line.upload), *_numbers(line.download)]

    def take_in(self, samples: Sequence[Sample], source: Source = Source.ROUND) -> None:
        """Learn from what was carried."""
        up = fastest_stretch(samples, lambda sample: sample.sent) if source is not Source.DOWNLOAD else None
        down = fastest_stretch(samples, lambda sample: sample.received) if source is not Source.PROBE else None
        if source is Source.PROBE and up and not up.busy:
            up = None  # it was the other side that could not take more
        with self._shared.get_lock():
            known = self.line
            self._keep(
                Line(
                    _observed(known.upload, up, source),
                    # whether a download waits for this line or for another one, nobody sees at this end
                    _observed(known.download, replace(down, busy=False) if down else None, source),
                )
            )

    @property
    def upload(self) -> float:
        """Bytes a second; 0: not known."""
        return self.line.upload.speed or 0.0

    @property
    def upload_was_seen(self) -> bool:
        """Whether anything has been measured of it, or somebody says that it was."""
        return bool(self.line.upload.measured or self.line.upload.at_least or self.line.upload.claim)

    @property
    def download(self) -> float:
        """Bytes a second; 0: not known. A line that was never seen to carry less down than up carries as much."""
        line = self.line
        return _at_least(line.download, line.upload.speed or 0.0)

    @contextlib.asynccontextmanager
    async def measured(self, p2p: P2P, source: Source = Source.ROUND) -> AsyncIterator[bool]:
        """Measure while the block runs (see `take_in`).

        Gives whether anything can be learned: the kernel tells, and there are connections to other computers.
        """
        try:
            if self._daemon is None:
                self._daemon = listener(p2p.daemon_listen_maddr["unix"])
            known = connections(self._daemon)
            books = Books(known, time.monotonic())
        except OSError as error:
            logger.debug(f"the line is not measured: {error!r}")
            yield False
            return
        sampling = asyncio.create_task(_sample(books, self._daemon))
        try:
            yield bool(known)
        finally:
            sampling.cancel()
            self.take_in(books.samples, source)


async def _sample(books: Books, daemon: int) -> None:
    with contextlib.suppress(OSError):
        while True:
            await asyncio.sleep(SAMPLED_EVERY)
            books.add(connections(daemon), time.monotonic())


def _observed(direction: Direction, stretch: Stretch | None, source: Source) -> Direction:
    if stretch is None:
        return direction
    if source is Source.ROUND and not stretch.busy and stretch.carried < IDLE_BYTES:
        return direction
    return direction.observed(stretch.carried, stretch.seconds, busy=stretch.busy)


def _numbers(direction: Direction) -> list[float]:
    return [*direction.measured, *[0.0] * (KEPT - len(direction.measured)), direction.at_least]


def _with_numbers(direction: Direction, numbers: Sequence[float]) -> Direction:
    *measured, at_least = numbers
    return replace(direction, measured=tuple(filter(None, measured)), at_least=at_least)


def _at_least(direction: Direction, speed: float) -> float:
    return min(max(direction.speed or 0.0, speed), direction.cap)
