"""In virtual time: what passes a cap, and what the windows of streams that share a line tell of it."""

import asyncio
import math
import random
from collections import deque

import pytest

from averaging.bandwidth import AHEAD, BURST, MEGABIT, Caps, Meter, OwnLine
from averaging.transport.window import REST, Window

SLICE = 2**15  # bytes

PIECE, SNAPSHOT_CHUNK = 130_000, 2**20


@pytest.mark.parametrize("streams", [1, 20])
@pytest.mark.parametrize("cap", [1.0, 100.0])
async def test_all_streams_together_carry_what_the_cap_allows_however_late_they_wake_up(
    cap: float, streams: int
) -> None:
    clock, source, passed = asyncio.get_running_loop().time, random.Random(1), 0
    upload = OwnLine(Caps(upload=cap), clock).upload
    speed, total = cap * MEGABIT, 600 * SLICE

    async def send() -> None:
        nonlocal passed
        for _ in range(600 // streams):
            await upload.turn(SLICE, is_urgent=False)
            passed += SLICE
            assert passed <= speed * (clock() + BURST) + SLICE + 1.0
            await asyncio.sleep(source.random() * 0.002)

    await asyncio.gather(*[send() for _ in range(streams)])
    assert passed == total
    assert total / speed - BURST - SLICE / speed <= clock() <= total / speed + 0.1


async def test_what_is_urgent_does_not_wait_and_those_behind_it_wait_longer() -> None:
    clock = asyncio.get_running_loop().time
    download = OwnLine(Caps(download=8.0), clock).download  # a megabyte a second
    await download.turn(1_000_000, is_urgent=False)
    assert await download.turn(500_000, is_urgent=True) == clock() == 0.0
    await download.turn(1, is_urgent=False)
    assert clock() == pytest.approx(1.5 - BURST)


async def test_what_is_urgent_keeps_to_the_cap_in_the_long_run_and_waits_for_nothing_else() -> None:
    clock = asyncio.get_running_loop().time
    download = OwnLine(Caps(download=8.0), clock).download
    await download.turn(60_000_000, is_urgent=False)  # a minute
    for second in range(1, 31):
        await download.turn(1_000_000, is_urgent=True)
        assert clock() == pytest.approx(max(0.0, second - 1 - AHEAD))


async def test_a_pause_saves_up_no_more_than_a_burst() -> None:
    clock = asyncio.get_running_loop().time
    upload = OwnLine(Caps(upload=8.0), clock).upload
    await asyncio.sleep(1000.0)
    for _ in range(20):
        await upload.turn(100_000, is_urgent=False)
    assert clock() == pytest.approx(1000.0 + 1.9 - BURST)


async def test_without_a_cap_nothing_waits() -> None:
    line = OwnLine(clock=asyncio.get_running_loop().time)
    assert await line.upload.turn(10**12, is_urgent=False) == 0.0
    assert line.upload.cap == math.inf


class Uplink:
    """Carries messages of several streams at once, in turns; acknowledgements come back after `latency` seconds."""

    def __init__(self, speed: float, latency: float = 0.03):
        self.speed, self.latency = speed, latency
        self.meter = Meter(asyncio.get_running_loop().time)
        self._queues: deque[deque[tuple[int, Window]]] = deque()
        self._filled = asyncio.Event()
        self.longest_wait = 0.0  # seconds, of what was sent last

    async def send(self, sizes: list[int], pause: float = 0.0, window: Window | None = None) -> None:
        """All messages of a stream, as one writes them; until the last has arrived."""
        window = window or Window(asyncio.get_running_loop().time, self.meter)
        queue: deque[tuple[int, Window]] = deque()
        self._queues.append(queue)
        for size in sizes:
            left = size
            while left:
                await window.room(left)
                part = min(window.slice, left)
                left -= part
                window.sent(part)
                queue.append((part, window))
                waiting = sum(one for some in self._queues for one, _ in some)
                self.longest_wait = max(self.longest_wait, waiting / self.speed)
                self._filled.set()
            await asyncio.sleep(pause)
        while window.in_flight:
            await asyncio.sleep(0.1)
        window.close()

    async def carry(self) -> None:
        """Go on for ever."""
        while True:
            self._filled.clear()
            while any(self._queues):
                self._queues.rotate(-1)
                if not self._queues[-1]:
                    continue
                size, window = self._queues[-1].popleft()
                await asyncio.sleep(size / self.speed)
                loop = asyncio.get_running_loop()
                loop.call_later(self.latency, window.received, loop.time())
            await self._filled.wait()


@pytest.mark.parametrize("size", [PIECE, SNAPSHOT_CHUNK])
@pytest.mark.parametrize(
    ("speed", "streams"), [(1.0, 1), (1.0, 4), (20.0, 1), (20.0, 4), (20.0, 20), (500.0, 1), (500.0, 4), (500.0, 20)]
)
async def test_full_windows_show_what_the_line_carries_and_never_more(speed: float, streams: int, size: int) -> None:
    line, bytes_a_second = Uplink(speed * MEGABIT), speed * MEGABIT
    carrying = asyncio.create_task(line.carry())
    seconds = max(5.0, 4 * streams * size / bytes_a_second)
    count = int(seconds * bytes_a_second / size / streams)
    for _ in range(2):  # the second time after a pause
        await asyncio.gather(*[line.send([size] * count) for _ in range(streams)])
        assert line.meter.speed is not None
        assert 0.75 * bytes_a_second < line.meter.speed <= bytes_a_second
        await asyncio.sleep(30.0)
    carrying.cancel()


@pytest.mark.parametrize(("speed", "streams"), [(2.0, 4), (2.0, 7), (20.0, 4), (20.0, 20), (500.0, 20)])
async def test_streams_that_begin_together_use_the_line_and_wait_little(speed: float, streams: int) -> None:
    line = Uplink(speed * MEGABIT)
    carrying = asyncio.create_task(line.carry())
    clock, count = asyncio.get_running_loop().time, int(20 * speed * MEGABIT / PIECE / streams)
    windows = [Window(clock, line.meter) for _ in range(streams)]
    for window in windows:
        await line.send([SLICE], window=window)  # one after the other: each knows the line without a queue
    await asyncio.sleep(2 * REST)
    began, line.longest_wait = clock(), 0.0
    await asyncio.gather(*[line.send([PIECE] * count, window=window) for window in windows])
    assert clock() - began < 22.0  # and use the line
    assert line.longest_wait < 0.3  # seconds; a router may drop what waits longer
    carrying.cancel()


async def test_a_stream_that_goes_on_beside_a_full_one_gets_its_share() -> None:
    line, clock = Uplink(100 * MEGABIT), asyncio.get_running_loop().time
    carrying = asyncio.create_task(line.carry())
    window = Window(clock, line.meter)
    await line.send([PIECE] * 5, window=window)
    await asyncio.sleep(2 * REST)
    full = asyncio.create_task(line.send([SNAPSHOT_CHUNK] * 1000))
    await asyncio.sleep(10.0)
    began = clock()
    await line.send([PIECE] * 200, window=window)
    assert clock() - began < 5 * 200 * PIECE / line.speed
    assert not full.done()
    for task in (full, carrying):
        task.cancel()


async def test_a_line_with_little_to_carry_teaches_nothing() -> None:
    line = Uplink(20 * MEGABIT)
    carrying = asyncio.create_task(line.carry())
    await line.send([PIECE] * 200, pause=0.2)
    await line.send([1000] * 200, pause=0.05)
    assert line.meter.speed is None
    await line.send([PIECE] * 40)
    known = line.meter.speed
    assert known is not None and known > 15 * MEGABIT
    await line.send([PIECE] * 3000, pause=0.2)
    assert line.meter.speed == known
    carrying.cancel()


async def test_a_stream_that_had_to_wait_and_then_has_nothing_to_send_does_not_make_the_line_look_slow() -> None:
    line = Uplink(20 * MEGABIT)
    carrying = asyncio.create_task(line.carry())
    window = Window(asyncio.get_running_loop().time, line.meter)
    window.sent(window.size)
    waiting = asyncio.create_task(window.room())
    await asyncio.sleep(0.03)
    window.received(0.0)
    await waiting
    await asyncio.sleep(30.0)
    await line.send([PIECE] * 200, window=window)
    assert line.meter.speed is not None and line.meter.speed > 15 * MEGABIT
    carrying.cancel()


async def test_a_standstill_teaches_nothing_and_a_line_that_was_slow_for_five_minutes_is_slow() -> None:
    line = Uplink(20 * MEGABIT)
    carrying = asyncio.create_task(line.carry())
    await line.send([PIECE] * 200)
    known = line.meter.speed or 0.0
    assert known > 15 * MEGABIT
    line.speed = 1.0  # byte a second
    sending = asyncio.create_task(line.send([PIECE] * 200))
    await asyncio.sleep(60.0)
    line.speed = 20 * MEGABIT
    await sending
    assert (line.meter.speed or 0.0) >= known
    line.speed = 2 * MEGABIT
    await line.send([PIECE] * int(2 * 60 * line.speed / PIECE))
    assert (line.meter.speed or 0.0) >= known  # others may have waited for one peer behind a thin line
    await line.send([PIECE] * int(5 * 60 * line.speed / PIECE))
    assert 1.5 * MEGABIT < (line.meter.speed or 0.0) <= 2 * MEGABIT
    carrying.cancel()


def test_streams_that_break_take_their_part_with_them() -> None:
    now = [0.0]
    meter = Meter(lambda: now[0])
    broken, other = Window(lambda: now[0], meter), Window(lambda: now[0], meter)
    broken.sent(2**30)
    broken.close()
    now[0] = 100.0
    assert not broken.received(100.0)
    for _ in range(100):
        other.sent(2**20)
    for _ in range(100):
        now[0] += 0.5
        assert other.received(now[0])
    assert meter.speed == pytest.approx(2**21)


@pytest.mark.parametrize(
    ("upload", "download", "caps", "told"),
    [
        (None, None, Caps(), None),
        (None, 9.0, Caps(), (9.0, 9.0)),
        (None, 9.0, Caps(upload=5.0), (5.0, 9.0)),
        (None, None, Caps(upload=5.0), (5.0, 5.0)),
        (None, None, Caps(download=20.0), (20.0, 20.0)),
        (None, None, Caps(5.0, 20.0), (5.0, 5.0)),
        (50.0, None, Caps(), (50.0, 50.0)),
        (50.0, 30.0, Caps(), (50.0, 50.0)),
        (50.0, 90.0, Caps(), (50.0, 90.0)),
        (50.0, 90.0, Caps(5.0, 20.0), (5.0, 20.0)),
        (3.0, None, Caps(5.0, 2.0), (3.0, 2.0)),
    ],
)
def test_a_peer_tells_what_is_known_within_its_caps(
    upload: float | None, download: float | None, caps: Caps, told: tuple[float, float] | None
) -> None:
    now = [0.0]
    line = OwnLine(caps, lambda: now[0])
    for direction, speed in ((line.upload, upload), (line.download, download)):
        if speed is not None:
            direction.meter.begin()
            now[0] += 4.0
            direction.meter.carried(int(4.0 * speed * MEGABIT))
            direction.meter.end()
    bandwidth = line.bandwidth()
    assert (bandwidth and (bandwidth.upload, bandwidth.download)) == (told and pytest.approx(told))
