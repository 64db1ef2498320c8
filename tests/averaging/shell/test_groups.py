"""Whole peers of a run in small groups, in virtual time: what they learn, whose states they take over, and credit."""

from pathlib import Path
from typing import cast
from unittest.mock import Mock

import pytest

from averaging.log.header import Entry, peer_of
from averaging.moshpit.group_keys import GroupSettings
from averaging.moshpit.peer import GroupPeer
from averaging.protocol.messages import Chunk, Message, Vote
from averaging.shell.shell import Shell
from swarm.errors import StorageError
from tests.averaging.shell.test_shell import states_are_equal
from tests.averaging.shell.virtual.village import Village

GROUPS = GroupSettings(size=4, rounds=None, state_every=2)


async def begun(folder: Path) -> tuple[Village, Shell]:
    village = Village(folder, compression="8bit", groups=GROUPS)
    return village, await village.begin(names=("asha", "bela"))


async def test_peers_of_one_group_learn_together_and_hold_the_same_bytes(tmp_path: Path) -> None:
    village, coordinator = await begun(tmp_path)
    before = village.distance(coordinator)
    await village.until(lambda: len(village.entries) > 9)
    await village.rest()
    states_are_equal(*village.shells.values())
    assert village.distance(coordinator) < before
    entered: dict[str, Entry] = {one.header.digest: one for one in village.credited("coordinator")}
    assert len(entered) == len(village.credited("coordinator")) >= len(village.entries) - 2
    samples = sum(member.samples for one in entered.values() for member in one.header.members)
    assert samples >= village.target * len(entered)


async def test_a_state_that_cannot_be_used_costs_another_question(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    village, _ = await begun(tmp_path)
    await village.until(lambda: len(village.entries) > 3)
    lying = [village.shells["asha.0"], village.shells["bela.0"]]

    def spoil(session: str, message: Message, payload: bytes | None) -> bytes | None:
        """What the chunks of its snapshot are; a manifest fits the run."""
        shell = village.shells[session]
        machine, made = shell._machine, cast(GroupPeer, shell._machine)._loading._made
        if shell not in lying or made is None or payload is None or not isinstance(message, Chunk):
            return payload
        return bytes(len(payload)) if message.digest in machine.fetching.parts_of([made.digest]) else payload

    village.spoil = spoil
    newcomer = village.add("chand")
    await village.until(lambda: newcomer.replay.loaded)
    told = [one for one in caplog.messages if "cannot be used" in one]
    assert told and all("so another peer is asked" in one and "\n" not in one for one in told)
    assert len(told) == len({one.split()[3] for one in told}) <= 2
    assert {one.split()[3] for one in told} <= {peer_of("asha.0"), peer_of("bela.0")}
    village.train(newcomer)

    def takes_part() -> bool:
        credited = [one for entry in village.credited("coordinator") for one in entry.header.members]
        return any(one.user == "chand" and one.weight for one in credited)

    await village.until(takes_part, 60.0)


async def test_a_coordinator_tells_that_it_has_a_header_once_that_is_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    village, coordinator = await begun(tmp_path)
    waiting = village.shells["asha.0"]._machine, village.shells["bela.0"]._machine
    disk, credit = village.disks["coordinator.0"], village.disks["coordinator.0"].credit
    with monkeypatch.context() as patched:
        patched.setattr(disk, "credit", Mock(side_effect=StorageError("the disk is full")))
        await village.until(lambda: len(village.entries) > 6)
        assert not any(isinstance(one, Vote) for one in village.sent["coordinator.0"])
        assert not village.credited("coordinator")
    assert disk.credit == credit

    def is_told() -> bool:
        known = [one._crediting._waiting for one in (*waiting, coordinator._machine) if isinstance(one, GroupPeer)]
        return not any(known)

    await village.rest()
    await village.until(is_told, 30.0)
    assert len(village.credited("coordinator")) >= 5
