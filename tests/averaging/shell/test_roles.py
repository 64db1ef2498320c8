"""A peer that rests: it computes nothing, and does all else; it computes again when the others have gone."""

import asyncio
from pathlib import Path

from averaging.protocol.messages import Bandwidth
from averaging.shell.shell import Shell
from tests.averaging.shell.virtual.village import TOKENS, Village


def village_of(folder: Path) -> tuple[Village, list[Shell]]:
    """A coordinator, two fast trainers, and a slow one whose line would hold up all of them."""
    village = Village(folder)
    shells = [village.add("coordinator", begins=True), village.add("asha"), village.add("bela"), village.add("thin")]
    for shell, mbits, speed in zip(shells, (200.0, 50.0, 50.0, 0.05), (0.0, 100.0, 100.0, 5.0), strict=True):
        shell.machine.session.bandwidth = Bandwidth(upload=mbits, download=10 * mbits)
        shell.computes_at(speed)
    for shell, seconds in zip(shells[1:], (1.0, 1.0, 20.0), strict=True):
        village.train(shell, seconds=seconds, overlap=True)
    return village, shells


async def test_a_peer_that_rests_is_in_each_round_brings_nothing_and_holds_nobody_up(tmp_path: Path) -> None:
    village, (coordinator, asha, _, thin) = village_of(tmp_path)
    await village.until(lambda: village.entries and thin.progress().rests and thin.machine.buffers.samples == 0)
    first, began = village.newest.step, asyncio.get_running_loop().time()
    await village.until(lambda: village.newest.step >= first + 15)
    step = (asyncio.get_running_loop().time() - began) / 15
    assert step < 1.2 * village.target / (2 * TOKENS)  # as long as the two fast ones need for the batch
    session = thin.machine.me.session
    members = {one.session: one.weight for one in village.newest.members}
    assert members[session] == 0
    assert sum(members.values()) >= village.target
    assert session not in {part.reducer for part in village.newest.parts}
    assert not thin.may_compute(overlap=True)
    assert asha.may_compute(overlap=True) or asha.machine.buffers.samples
    assert coordinator.machine.reducing.patience.trusts(session, asyncio.get_running_loop().time())
    await village.rest()
