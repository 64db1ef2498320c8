"""Peers behind thin lines, in virtual time: they are slow, and neither late nor asked twice."""

import asyncio
from pathlib import Path

import pytest

from averaging import bandwidth
from averaging.bandwidth import MEGABIT
from averaging.log import snapshot
from averaging.protocol.messages import Bandwidth
from averaging.shell.connection import LOOK_EVERY
from averaging.shell.shell import Shell
from tests.averaging.shell.virtual.thin_lines import Lines
from tests.averaging.shell.virtual.village import LAYOUT, Village

SPEED = 2000.0  # bytes a second
UPDATE = LAYOUT.size * 66 / 64  # bytes in 8 bits
SNAPSHOT = LAYOUT.size * 8
STEP = 1.8 * UPDATE / SPEED  # seconds: some more than a round with a member behind such a line


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some 30 chunks of a snapshot, each some seconds long."""
    monkeypatch.setattr(snapshot, "CHUNK", 2**14)


def village_of(folder: Path, **thin: float) -> tuple[Village, list[Shell]]:
    """A coordinator and two trainers that need a step for twelve batches each."""
    village = Village(folder, compression="8bit", target=2400)
    village.lines = Lines(thin)
    coordinator = village.add("coordinator", begins=True)
    shells = [coordinator, village.add("asha"), village.add("bela")]
    for shell in shells:
        shell.machine.session.bandwidth = Bandwidth(upload=200.0, download=200.0)
    for shell in shells[1:]:
        village.train(shell, seconds=STEP / 12, overlap=True)
    return village, shells


def add_thin(village: Village, seconds: float = STEP / 12) -> Shell:
    """A trainer behind a thin line that others can reach."""
    shell = village.add("thin")
    shell.machine.session.bandwidth = Bandwidth(upload=SPEED / MEGABIT, download=SPEED / MEGABIT)
    village.train(shell, seconds=seconds, overlap=True)
    return shell


async def test_a_peer_behind_a_thin_line_joins_within_the_bound_and_loads_nothing_twice(tmp_path: Path) -> None:
    village, _ = village_of(tmp_path, thin=SPEED)
    await village.until(lambda: len(village.entries) > 7, seconds=3000)
    at_begin, clock = max(village.entries), asyncio.get_running_loop().time
    newcomer, began = add_thin(village), clock()
    await village.until(lambda: newcomer.replay.loaded, seconds=3000)
    carried = village.lines.down["thin"].carried
    assert carried < 1.05 * SNAPSHOT
    await village.until(lambda: any(one.user == "thin" and one.weight for one in village.newest.members), seconds=9000)
    assert newcomer.replay.loaded == 1, "it began again with a newer snapshot"
    seconds, update = clock() - began, UPDATE / SPEED
    since = at_begin % village.snapshot_every
    bound = (SNAPSHOT / SPEED + since * update) * STEP / (STEP - update)
    assert seconds < 1.2 * bound, seconds / bound


async def test_rounds_with_a_member_behind_a_thin_line_take_long_and_are_one_ballot_with_all_of_it(
    tmp_path: Path,
) -> None:
    village, _ = village_of(tmp_path, thin=SPEED)
    thin = add_thin(village)
    await village.until(lambda: village.entries, seconds=3000)
    await village.until(lambda: any(one.user == "thin" and one.weight for one in village.newest.members), seconds=9000)
    first = max(village.entries)
    assert thin.settings.timeouts.ballot < UPDATE / SPEED
    await village.until(lambda: max(village.entries) >= first + 5, seconds=9000)
    for step in range(first, first + 5):
        entry = village.entries[step]
        assert entry.header.ballot.convener == "coordinator.0", "the coordinator was taken for dead"
        assert entry.header.ballot.number == village.entries[step - 1].header.ballot.number + 1, "a round failed"
        assert not entry.header.exclusions
        assert {part.reducer for part in entry.header.parts} == {"coordinator.0", "asha.0", "bela.0"}
    members = [{one.user for one in village.entries[step].header.members if one.weight} for step in village.entries]
    assert sum("thin" in one for one in members[first:]) >= 4


@pytest.mark.parametrize("is_measured", [True, False])
async def test_a_peer_that_measures_its_thin_line_owns_no_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_measured: bool
) -> None:
    monkeypatch.setattr(bandwidth, "ENOUGH", 2**11)  # bytes; as small as all else here
    thin, fat, fat_ones = 4 * SPEED, 100 * SPEED, ("asha", "bela", "coordinator")
    village = Village(tmp_path, compression="8bit", target=2400)
    village.lines = Lines({**dict.fromkeys(fat_ones, fat), "thin": thin})
    village.add("coordinator", begins=True)
    for name in ("asha", "bela", "thin"):
        village.train(village.add(name), seconds=STEP / 12, overlap=True)
    measuring = asyncio.create_task(measure(village)) if is_measured else None
    await village.until(lambda: village.entries, seconds=3000)
    await village.until(lambda: any(one.user == "thin" and one.weight for one in village.newest.members), seconds=9000)
    first = max(village.entries)
    await village.until(lambda: max(village.entries) >= first + 4, seconds=9000)
    owners = [{part.reducer for part in village.entries[step].header.parts} for step in range(first, first + 5)]
    if measuring is None:
        assert "thin.0" in set.union(*owners)
    else:
        measuring.cancel()
        assert owners == [{f"{one}.0" for one in fat_ones}] * 5
        for name, line in village.lines.own.items():
            speed, told = thin if name == "thin" else fat, line.bandwidth()
            assert told is not None and 0.8 * speed < told.upload * MEGABIT < 1.01 * speed


async def measure(village: Village) -> None:
    """Tell each shell what its line carries, as a connection does."""
    while True:
        for shell in village.shells.values():
            bandwidth = village.lines.own[shell.machine.me.user].bandwidth()
            if bandwidth is not None:
                shell.measured(bandwidth)
        await asyncio.sleep(LOOK_EVERY)
