"""How long catching up takes where lines and processors do not limit it."""

import asyncio
from pathlib import Path

import pytest

from tests.averaging.shell.virtual.village import Village


@pytest.mark.parametrize("updates", [7, 60])
async def test_a_newcomer_is_there_within_seconds_whatever_number_of_updates_it_has_to_take(
    tmp_path: Path, updates: int
) -> None:
    village = Village(tmp_path, snapshot_every=1000)
    await village.begin(names=("asha", "bela"), steps=updates)
    await village.rest()
    newcomer, began = village.add("chand"), asyncio.get_running_loop().time()
    await village.until(lambda: newcomer.replay.state and newcomer.replay.state.step == village.newest.step)
    assert asyncio.get_running_loop().time() < began + 5.0 + updates / 5


async def test_a_step_does_not_wait_for_a_second_after_the_one_before(tmp_path: Path) -> None:
    """That pause is for ballots that decided nothing."""
    village = Village(tmp_path, snapshot_every=1000)
    village.add("coordinator", begins=True)
    village.train(village.add("asha"), tokens=village.target, seconds=0.1)
    await village.until(lambda: len(village.entries) > 1)
    began, first = asyncio.get_running_loop().time(), len(village.entries)
    await village.until(lambda: len(village.entries) >= first + 10)
    usual = 1.05  # seconds of a step: 0.1 of computing, and some twenty messages, one after the other, of 0.045
    pause = village.settings.timeouts.resend
    assert asyncio.get_running_loop().time() < began + 10 * (usual + pause / 2)
