"""What passes a cap, in virtual time: never more than it allows, and hardly less."""

import asyncio
import random

import pytest

from averaging.bandwidth.cap import BURST, MEGABIT
from averaging.bandwidth.own_line import Caps, OwnLine
from tests.support.virtual_time import in_virtual_time

SLICE = 2**15  # bytes


@pytest.mark.parametrize("streams", [1, 20])
@pytest.mark.parametrize("cap", [1.0, 100.0])
def test_all_streams_together_carry_what_the_cap_allows_however_late_they_wake_up(cap: float, streams: int) -> None:
    async def course() -> None:
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

    in_virtual_time(course)


def test_what_is_urgent_does_not_wait_and_those_behind_it_wait_longer() -> None:
    async def course() -> None:
        clock = asyncio.get_running_loop().time
        download = OwnLine(Caps(download=8.0), clock).download  # a megabyte a second
        await download.turn(1_000_000, is_urgent=False)
        assert await download.turn(500_000, is_urgent=True) == clock() == 0.0
        await download.turn(1, is_urgent=False)
        assert clock() == pytest.approx(1.5 - BURST)

    in_virtual_time(course)


def test_a_pause_saves_up_no_more_than_a_burst() -> None:
    async def course() -> None:
        clock = asyncio.get_running_loop().time
        upload = OwnLine(Caps(upload=8.0), clock).upload
        await asyncio.sleep(1000.0)
        for _ in range(20):
            await upload.turn(100_000, is_urgent=False)
        assert clock() == pytest.approx(1000.0 + 1.9 - BURST)

    in_virtual_time(course)


def test_without_a_cap_nothing_waits() -> None:
    async def course() -> None:
        line = OwnLine(clock=asyncio.get_running_loop().time)
        assert await line.upload.turn(10**12, is_urgent=False) == 0.0
        assert not line.upload.cap.is_set

    in_virtual_time(course)
