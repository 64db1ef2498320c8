"""What a host serves when the coordinator keeps states: in virtual time."""

import asyncio
import math
from typing import Any
from unittest.mock import Mock

import pytest

from experts.host.files import StateFiles
from experts.host.worker import BUSY
from experts.remote.recovering import ANSWER
from experts.remote.service import NOT_HERE, NOTHING_NEWER
from experts.versions import rolled_back
from swarm import tasks
from swarm.errors import StorageError
from tests.experts.remote.one_host.scene import SETTINGS, SETTLED, TIMES, A, B, C, D, Peer, Scene, state
from tests.experts.remote.one_host.scene import scene as scene


@pytest.fixture
def coordinator(scene: Scene) -> Peer:
    """It keeps states of A and B; the host has one of B, which is newer, and one of C, of which it keeps none."""
    keeper = Peer("coordinator", {A: 7, B: 3})
    keeper.refuses = {B: NOTHING_NEWER.refused, C: NOT_HERE.refused, D: NOT_HERE.refused}
    scene.has_coordinator(keeper)
    for uid, version in ((B, 5), (C, 2)):
        StateFiles(scene.folder, SETTINGS).write(uid, version, state(uid, version))
    return keeper


async def test_each_expert_begins_with_the_state_that_has_most_steps(scene: Scene, coordinator: Peer):
    await scene.hosting.start()
    await asyncio.sleep(SETTLED)
    assert scene.hosting.holdings.serves == {A: 7, B: 5, C: 2, D: 0}
    assert scene.files == {A: 7, B: 5, C: 2, D: 0}
    assert sorted(coordinator.asked) == [A, B, C, D], "once each"


async def test_the_learning_rate_follows_the_runs_schedule_as_the_coordinator_tells_it(scene: Scene, coordinator: Peer):
    coordinator.schedule_factor = 0.75
    await scene.hosting.start()
    computing = scene.hosting.worker.computing
    await asyncio.sleep(SETTLED)
    assert computing.schedule_factor == 0.75
    for told, then in ((0.5, 0.5), (math.nan, 0.5), (1.5, 0.5), (-0.1, 0.5), (0.0, 0.0)):
        coordinator.schedule_factor = told
        await asyncio.sleep(2 * TIMES.ask)
        assert computing.schedule_factor == then
    coordinator.schedule_factor, coordinator.hangs = 1.0, True
    await asyncio.sleep(2 * TIMES.ask)
    assert computing.schedule_factor == 0.0, "while the coordinator is away it stays"


async def test_while_the_coordinator_is_away_only_experts_with_a_file_are_served(scene: Scene, coordinator: Peer):
    coordinator.hangs = True
    await scene.hosting.start()
    await asyncio.sleep(SETTLED + ANSWER)
    assert scene.hosting.holdings.serves == {B: 5, C: 2}
    assert scene.hosting.worker.computing.schedule_factor == 0.0, "nobody knows how far the run is"
    told = (await scene.hosting.report()).problem
    assert told.startswith(f"the coordinator ({coordinator.peer_id.to_base58()}) does not answer")
    await asyncio.sleep(TIMES.copy)
    assert scene.hosting.holdings.serves == {B: 5, C: 2}, "A may have been trained, and D as well"
    assert all(stored.serves.keys() <= {B, C} for stored in scene.directory.stored)
    coordinator.hangs = False
    await asyncio.sleep(SETTLED + ANSWER)
    assert scene.hosting.holdings.serves == {A: 7, B: 5, C: 2, D: 0}
    assert (await scene.hosting.report()).problem == ""


async def test_a_busy_coordinator_is_asked_again_and_a_bad_state_of_it_is_not_used(scene: Scene, coordinator: Peer):
    coordinator.states[A] = b"not a state"
    coordinator.refuses[D] = BUSY.refused
    await scene.hosting.start()
    await asyncio.sleep(SETTLED)
    assert scene.hosting.holdings.serves == {A: 0, B: 5, C: 2}
    coordinator.refuses[D] = NOT_HERE.refused
    await asyncio.sleep(SETTLED)
    assert scene.hosting.holdings.serves.keys() == {A, B, C, D}


async def test_a_state_that_cannot_be_written_is_not_served(
    scene: Scene, coordinator: Peer, monkeypatch: pytest.MonkeyPatch
):
    def full(self: StateFiles, uid: Any, *more: Any) -> bool:
        if uid == A:
            raise StorageError("the disk is full")
        return write(self, uid, *more)

    write = StateFiles.write
    await scene.hosting.start()
    with monkeypatch.context() as context:
        context.setattr(StateFiles, "write", full)
        await asyncio.sleep(SETTLED)
        for _ in range(20):
            assert scene.hosting.holdings.serves.keys() == {B, C, D}
            assert (await scene.hosting.report()).problem == "the disk is full"
            await asyncio.sleep(TIMES.ask / 4)
    await asyncio.sleep(SETTLED)
    assert scene.hosting.holdings.serves[A] == 7
    assert (await scene.hosting.report()).problem == ""


async def test_a_copy_that_was_removed_from_the_disk_is_no_reason_to_begin_anew(scene: Scene, coordinator: Peer):
    other = Peer("other", {A: 7, B: 5, C: 2, D: 3})
    await scene.hosting.start()
    scene.list(other)
    await asyncio.sleep(SETTLED)
    assert scene.hosting.holdings.copies == {A: 7, B: 5, C: 2, D: 3}
    (scene.folder / "0.0.safetensors").unlink()
    coordinator.has(A, 6)
    coordinator.refuses[A] = NOTHING_NEWER.refused  # than the copy
    scene.list()
    await asyncio.sleep(TIMES.look)
    assert A not in scene.experts, "it has taken steps"
    coordinator.refuses.pop(A)
    await asyncio.sleep(2 * TIMES.look)
    assert scene.hosting.holdings.serves == {A: 6, B: 5, C: 2, D: 3}


@pytest.mark.parametrize("is_full", [False, True])
async def test_a_copy_that_is_to_be_served_is_told_of_until_it_is_unless_the_disk_keeps_it_from_that(
    scene: Scene, coordinator: Peer, monkeypatch: pytest.MonkeyPatch, is_full: bool
):
    other = Peer("other", {A: 7, B: 5, C: 2, D: 3})
    await scene.hosting.start()
    scene.list(other)
    await asyncio.sleep(SETTLED)
    assert scene.hosting.holdings.copies == {A: 7, B: 5, C: 2, D: 3}
    coordinator.has(A, 8)
    coordinator.hangs = not is_full
    scene.directory.stored.clear()
    with monkeypatch.context() as context:
        if is_full:
            context.setattr(StateFiles, "write", Mock(side_effect=StorageError("the disk is full")))
        scene.list()
        await asyncio.sleep(2 * ANSWER)
        told = [one.serves.keys() | one.copies.keys() for one in scene.directory.stored]
        assert scene.hosting.holdings.serves.keys() == ({B, C, D} if is_full else {A, B, C, D})
    if is_full:
        assert A not in told[-1], "a host whose disk is not full may take the coordinator's state"
    else:
        assert all(one == {A, B, C, D} for one in told), "or another host would begin with an older state"


async def test_an_error_that_nobody_expected_is_logged(
    scene: Scene, coordinator: Peer, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(StateFiles, "write", Mock(side_effect=RuntimeError("no such tensor")))
    monkeypatch.setattr(tasks, "logger", logger := Mock())
    await scene.hosting.start()
    await asyncio.sleep(SETTLED)
    assert str(logger.error.call_args.kwargs["exc_info"]) == "no such tensor"


async def test_records_are_kept_up_while_states_arrive_slowly(scene: Scene, coordinator: Peer):
    async def slowly(*arguments: Any) -> Any:
        await asyncio.sleep(TIMES.transfer - 1.0)
        return await Peer.ask(coordinator, *arguments)

    await scene.hosting.start()
    await asyncio.sleep(SETTLED)
    coordinator.ask = slowly  # type: ignore[assignment,method-assign]
    scene.list(Peer("other", {}))
    before = len(scene.directory.stored)
    scene.experts.clear()
    await asyncio.sleep(100.0)
    assert len(scene.directory.stored) >= before + 9


async def test_after_a_rollback_of_the_run_a_host_goes_on_from_the_coordinators_states(scene: Scene, coordinator: Peer):
    older = rolled_back(2, newest=9)
    await scene.hosting.start()
    await asyncio.sleep(SETTLED)
    scene.experts[A].version = scene.experts[B].version = 9
    coordinator.refuses = {A: BUSY.refused, C: NOTHING_NEWER.refused, D: NOT_HERE.refused}
    coordinator.has(B, older)
    await asyncio.sleep(TIMES.ask)
    assert scene.hosting.holdings.serves == {A: 9, B: older, C: 2, D: 0}
    coordinator.refuses.pop(A)
    coordinator.has(A, older)
    scene.experts[B].version += 1  # it learns on
    await asyncio.sleep(TIMES.ask)
    assert scene.hosting.holdings.serves == {A: older, B: older + 1, C: 2, D: 0}
    await asyncio.sleep(TIMES.copy + TIMES.look)
    assert scene.files == {A: older, B: older + 1, C: 2, D: 0}


async def test_a_coordinator_that_is_away_keeps_no_host_from_serving(scene: Scene, coordinator: Peer):
    await scene.hosting.start()
    await asyncio.sleep(SETTLED)
    coordinator.hangs = True
    await asyncio.sleep(TIMES.ask + TIMES.transfer)
    assert scene.hosting.holdings.serves == {A: 7, B: 5, C: 2, D: 0}
    coordinator.hangs = False
    coordinator.refuses.pop(D)
    coordinator.has(D, rolled_back(0, newest=0))
    await asyncio.sleep(TIMES.ask + TIMES.transfer)
    assert scene.hosting.holdings.serves[D] == rolled_back(0, newest=0)
