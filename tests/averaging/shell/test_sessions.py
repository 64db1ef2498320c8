"""What a peer takes over from one session to the next, in a restart or in a rejoin, and what it must not."""

import asyncio
import hashlib
from pathlib import Path
from unittest.mock import Mock

from averaging.bandwidth import NO_CAPS, Caps
from averaging.log.header import HeaderKind
from averaging.protocol.actions import Apply
from averaging.protocol.messages import Bandwidth, Chunk, Report
from averaging.shell.connection import LOOK_EVERY, Connection
from averaging.shell.shell import Shell
from tests.averaging.shell.test_shell import states_are_equal
from tests.averaging.shell.virtual.village import Village, step_of


async def restarted_behind_a_snapshot(village: Village) -> Shell:
    """A coordinator that was away for long, and has loaded a snapshot from others."""
    coordinator = await village.begin(steps=3)
    await village.die(coordinator)
    await village.more_steps(13)
    again = village.add("coordinator", begins=True)
    await village.until(lambda: again.replay.loaded)
    return again


async def test_headers_that_a_coordinator_has_missed_are_credited_across_kills(tmp_path: Path) -> None:
    village = Village(tmp_path)
    coordinator = await restarted_behind_a_snapshot(village)
    await village.until(lambda: not coordinator.machine.backfilling.gaps)
    await village.rest()
    step = step_of(coordinator)
    await village.die(coordinator)
    again = village.add("coordinator", begins=True)  # nobody has told it anything yet
    assert not again.machine.backfilling.gaps and step_of(again) == step
    assert {entry.header.step for entry in village.credited("coordinator")} == set(range(step + 1))
    for name in ("asha", "bela", "chand"):
        village.train(village.shells[f"{name}.0"])
    await village.until(lambda: village.newest.tie_breaker == "coordinator.2")
    await village.rest()
    states_are_equal(*village.shells.values())


async def test_a_chain_that_has_lost_is_left_in_a_new_session_and_keeps_its_credit(tmp_path: Path) -> None:
    """The coordinator is cut off with one trainer and resets the chain there, while the others vote on."""
    village = Village(tmp_path, target=600)
    coordinator = await village.begin(names=("asha", "bela", "chand", "dina"), steps=7)
    alone = {"coordinator.0", "asha.0"}
    village.may_fork = True
    village.is_cut = lambda sender, to: (sender in alone) != (to in alone)
    await village.until(lambda: coordinator.machine.log.tip.resets)
    await village.until(lambda: step_of(coordinator) == coordinator.machine.log.tip.step)
    reset = next(one for one in village.credited("coordinator") if one.header.kind is HeaderKind.RESET)
    others = village.shells["bela.0"].machine.log
    await village.until(lambda: others.tip.step > reset.header.step + 1)
    village.is_cut = lambda sender, to: False
    old = coordinator.machine
    await village.until(lambda: coordinator.machine is not old)
    coordinator.stepping.put(old, Apply(reset))  # as if its last steps had been slow: for their credit only
    await village.until(lambda: village.credited("coordinator").count(reset) == 2)
    # until it is connected again, what the others say is said to its old session, and nothing goes out
    assert "coordinator.0" in village.shells
    said = len(village.sent["coordinator.0"])
    before = coordinator.machine.progress.views.peers.copy()
    coordinator.received("coordinator.0", "bela.0", Report(None, 5), None)
    assert coordinator.machine.progress.views.peers == before, "a message to the old session was taken in"
    await village.until(lambda: "coordinator.0" not in village.shells)
    assert len(village.sent["coordinator.0"]) == said, "the new session has spoken as the old one"
    await village.until(lambda: "asha.0" not in village.shells)
    await village.until(lambda: any(one.user == "asha" and one.weight for one in village.newest.members))
    tip = others.tip
    await village.until(lambda: village.shells["chand.0"].machine.log.tip.step > tip.step + 3)
    await village.rest()
    states_are_equal(*village.shells.values())
    assert not coordinator.machine.log.tip.resets
    step = step_of(coordinator)
    await village.die(coordinator)
    again = village.add("coordinator", begins=True)
    assert step_of(again) == step
    credited = village.credited("coordinator")
    assert {entry.header.step for entry in credited} == set(range(step + 1))
    beside = {entry.header.digest for entry in credited if entry.header.step == reset.header.step}
    assert len(beside) == 2  # of both chains


async def test_a_run_without_voters_goes_on_though_its_coordinator_is_killed_again_and_again(tmp_path: Path) -> None:
    """Its disk keeps how long the quorum has been missing, so that each session waits for one ballot only."""
    village = Village(tmp_path)
    names = "asha", "bela", "chand"
    coordinator = await village.begin(names=names, steps=3)
    for name in names:
        await village.die(village.shells[f"{name}.0"])
    for name in names:
        village.train(village.add(name))
    step = village.newest.step
    for _ in range(4):
        await asyncio.sleep(35.0)
        await village.die(coordinator)
        coordinator = village.add("coordinator", begins=True)
    await village.until(lambda: village.newest.step > step + 1, seconds=10.0)
    assert village.entries[step + 1].header.kind is HeaderKind.RESET
    assert village.entries[step + 1].certificate.ballot.convener != "coordinator.0"
    await village.rest()


def test_a_connection_sends_nothing_of_a_session_that_is_not_open() -> None:
    connection = Connection(Mock(caps=NO_CAPS))
    connection._transport, connection._session = Mock(), "asha.0"
    connection.send("asha.1", "bela.0", Report(None, 0))
    connection._transport.send.assert_not_called()
    connection.send("asha.0", "bela.0", Report(None, 0))
    connection._transport.send.assert_called_once_with("bela.0", Report(None, 0), None)


async def test_chunks_that_nothing_names_are_deleted_at_the_start(tmp_path: Path) -> None:
    village = Village(tmp_path)
    coordinator = await village.begin(steps=13)
    await village.die(coordinator)
    contents = village.disks["coordinator.0"].contents
    left = b"of a round that has failed"
    contents.put(hashlib.sha256(left).hexdigest(), left)
    again = village.add("coordinator", begins=True)
    fetching, kept = again.machine.fetching, village.disks["coordinator.1"].contents.digests
    assert hashlib.sha256(left).hexdigest() not in kept
    assert kept == fetching.held
    await village.until(lambda: village.newest.tie_breaker == "coordinator.1")
    await village.rest()


async def test_a_reducer_pushes_no_more_than_its_part(tmp_path: Path) -> None:
    village = Village(tmp_path)
    await village.begin(steps=2)
    shell = village.shells["bela.0"]
    reducing, contents = shell.machine.reducing, village.stores["bela.0"]

    def part_of(sender: str) -> int:
        return sum(one.count for one in reducing.plan.parts if one.reducer == sender) if reducing.plan else 0

    for _ in range(2):  # a new round has room again
        await village.until(lambda: part_of("asha.0"))
        assert reducing.plan is not None
        ballot, before = reducing.plan.ballot, set(contents.digests)
        for number in range(100):
            content = f"{ballot} {number}".encode()
            message = Chunk(hashlib.sha256(content).hexdigest())
            for sender in ("asha.0", "mallory.0"):
                shell.received("bela.0", sender, message, content)
        assert 0 < len(set(contents.digests) - before) <= 2 * part_of("asha.0")
        await village.until(lambda: reducing.plan is None)
    await village.rest()


async def test_each_session_is_told_what_the_line_carries() -> None:
    connection, shell, transport = Connection(Mock(caps=Caps(5.0, 20.0))), Mock(), Mock(received={})
    for _ in range(2):
        watching = asyncio.create_task(connection._watch(transport, Mock(), shell))
        await asyncio.sleep(2 * LOOK_EVERY)
        watching.cancel()
        shell.measured.assert_called_with(Bandwidth(5.0, 5.0))
        shell.reset_mock()


async def test_sessions_that_connect_are_looked_up() -> None:
    connection, discovery, transport = Connection(Mock(caps=NO_CAPS)), Mock(), Mock(received={"asha.0": 0})
    watching = asyncio.create_task(connection._watch(transport, discovery, Mock()))
    await asyncio.sleep(LOOK_EVERY / 2)
    transport.received = {"asha.0": 0, "bela.0": 0}
    await asyncio.sleep(2 * LOOK_EVERY)
    watching.cancel()
    assert [one.args for one in discovery.connected.call_args_list] == [("asha.0",), ("bela.0",)]
