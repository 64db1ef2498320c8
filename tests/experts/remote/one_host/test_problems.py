"""What a host in virtual time tells its volunteer of its troubles."""

import asyncio
from typing import Any
from unittest.mock import Mock

import pytest

from experts.directory.records import LIFETIME, NoAnswer
from experts.host.files import StateFiles
from swarm.errors import StorageError
from tests.experts.remote.one_host.scene import SETTLED, TIMES, A, B, C, D, Peer, Scene
from tests.experts.remote.one_host.scene import scene as scene


@pytest.mark.parametrize(
    ("trouble", "told"), [("record", "does not take this host's record"), ("DHT", "the DHT names no hosts")]
)
async def test_the_volunteer_is_told_why_no_experts_are_served(scene: Scene, trouble: str, told: str):
    await scene.hosting.start()

    async def problem() -> str:
        return (await scene.hosting.report()).problem

    if trouble == "record":
        scene.directory.is_stored = False
    else:
        scene.directory.error = NoAnswer()
    await asyncio.sleep(LIFETIME - 1.0)
    assert await problem() == "", "it may be a moment"
    await asyncio.sleep(2.0)
    assert told in await problem()
    scene.directory.error, scene.directory.is_stored = None, True
    await asyncio.sleep(TIMES.look)
    assert await problem() == ""


async def test_the_volunteer_is_told_that_copies_cannot_be_written(scene: Scene, monkeypatch: pytest.MonkeyPatch):
    def full(_self: StateFiles, uid: Any, *_: Any) -> bool:
        raise StorageError(f"{uid}: the disk is full")

    other = Peer("other", {A: 5, B: 5, C: 5, D: 5})
    await scene.hosting.start()
    scene.list(other)
    with monkeypatch.context() as context:
        context.setattr(StateFiles, "write", full)
        await asyncio.sleep(SETTLED)
        told = (await scene.hosting.report()).problem
        assert told.endswith(": the disk is full")
        for _ in range(20):
            await asyncio.sleep(TIMES.copy / 4)
            assert (await scene.hosting.report()).problem == told, "once, and not for each file"
    await asyncio.sleep(TIMES.copy + TIMES.look)
    assert (await scene.hosting.report()).problem == ""
    assert scene.files == {A: 5, B: 5, C: 5, D: 5}


async def test_a_copy_that_cannot_be_kept_up_is_announced_no_longer_so_that_another_host_makes_one(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
):
    other = Peer("other", {A: 5, B: 5, C: 5, D: 5})
    await scene.hosting.start()
    scene.list(other)
    await asyncio.sleep(SETTLED)
    other.has(A, 9)
    other.versions[A] = 9
    with monkeypatch.context() as context:
        context.setattr(StateFiles, "write", Mock(side_effect=StorageError("the disk is full")))
        await asyncio.sleep(TIMES.copy + TIMES.tell)
        assert scene.directory.stored[-1].copies == {B: 5, C: 5, D: 5}
        await asyncio.sleep(TIMES.copy)
        assert scene.directory.stored[-1].copies == {B: 5, C: 5, D: 5}
        assert scene.files[A] == 5, "it may be the only one"
    await asyncio.sleep(TIMES.copy + TIMES.tell)
    assert scene.directory.stored[-1].copies == {A: 9, B: 5, C: 5, D: 5}
