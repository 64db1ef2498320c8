"""The coordinator collects states once each, whatever hosts do: in virtual time."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from experts.directory.records import LIFETIME, NoAnswer
from experts.grid import Uid
from experts.host.files import StateFiles
from experts.host.state import to_bytes
from experts.host.trained_expert import TrainedExpert
from experts.host.worker import BUSY
from experts.remote.state_collection import LOOK_AGAIN, TRIES, StateCollection
from swarm.errors import StorageError, SwarmError
from tests.experts.remote.one_host.scene import SETTINGS, A, B, C, D, Peer, Scene
from tests.experts.remote.one_host.scene import scene as scene
from tests.support.virtual_time import in_virtual_time

PATIENCE = 600.0


@pytest.fixture
def collection(scene: Scene, tmp_path: Path) -> StateCollection:
    return StateCollection(scene.hosting._swarm, SETTINGS, tmp_path / "kept", lambda: 1.0)


def collecting(collection: StateCollection, meanwhile: Callable[[], Awaitable[None]] | None = None) -> dict[Uid, str]:
    found: list[dict[Uid, str]] = []

    async def course() -> None:
        task = asyncio.create_task(collection.collect(PATIENCE))
        if meanwhile is not None:
            await meanwhile()
        found.append(await task)

    in_virtual_time(course)
    return found[0]


def test_what_has_more_steps_than_ours_comes_once(scene: Scene, collection: StateCollection):
    first, second = Peer("first", {A: 5, B: 4}), Peer("second", {C: 3, D: 0})
    scene.list(first, second)
    collection.files.write(B, 4, to_bytes(TrainedExpert(B, SETTINGS, 4)))
    assert collecting(collection) == {}
    assert collection.files.versions == {A: 5, B: 4, C: 3}
    assert (first.asked, second.asked) == ([A], [C]), "D has learned nothing yet"
    assert collecting(collection) == {}
    assert (first.asked, second.asked) == ([A], [C])


def test_a_host_that_refuses_is_asked_again(scene: Scene, collection: StateCollection):
    host = Peer("host", {A: 5, B: 5})
    host.refuses = {B: BUSY.refused}
    scene.list(host)

    async def it_has_time_again() -> None:
        await asyncio.sleep(3 * LOOK_AGAIN)
        assert collection.files.versions == {A: 5}
        host.refuses = {}

    assert collecting(collection, it_has_time_again) == {}


def test_a_host_that_hangs_keeps_no_other_states_away_and_costs_the_patience(scene: Scene, collection: StateCollection):
    first, second = Peer("first", {A: 5}), Peer("second", {C: 5})
    first.hangs = True
    scene.list(first, second)
    assert collecting(collection) == {A: first.peer_id.to_base58()}
    assert collection.files.versions == {C: 5}


async def test_a_host_that_freezes_holds_a_collection_up_for_a_minute_alone(scene: Scene, collection: StateCollection):
    frozen = Peer("frozen", {A: 5})
    frozen.hangs = True
    scene.list(frozen)

    async def its_record_expires() -> None:
        await asyncio.sleep(LIFETIME)
        scene.list()

    collected, _ = await asyncio.gather(collection.collect(PATIENCE), its_record_expires())
    assert collected == {}
    assert asyncio.get_running_loop().time() < 70.0


def test_what_nobody_serves_any_longer_is_not_waited_for(scene: Scene, collection: StateCollection):
    host = Peer("host", {A: 5})
    host.refuses = {A: BUSY.refused}
    scene.list(host)

    async def it_goes() -> None:
        await asyncio.sleep(LOOK_AGAIN / 2)
        scene.list()

    assert collecting(collection, it_goes) == {}


def test_without_hosts_there_is_nothing_to_collect(scene: Scene, collection: StateCollection):
    scene.directory.error = NoAnswer()
    assert collecting(collection) == {}


def test_a_dht_in_which_nobody_answers_for_a_moment_keeps_no_state_away(scene: Scene, collection: StateCollection):
    host = Peer("host", {A: 5})
    scene.list(host)
    scene.directory.error = NoAnswer()

    async def it_answers_again() -> None:
        await asyncio.sleep(LOOK_AGAIN * (TRIES - 1.5))
        scene.directory.error = None

    assert collecting(collection, it_answers_again) == {}


def test_a_slow_dht_is_told(scene: Scene, collection: StateCollection):
    scene.directory.error = TimeoutError()
    with pytest.raises(SwarmError, match="the DHT did not answer"):
        collecting(collection)


def test_a_state_that_cannot_be_written_is_told(
    scene: Scene, collection: StateCollection, monkeypatch: pytest.MonkeyPatch
):
    def fails(self: StateFiles, uid: Uid, *more: Any) -> bool:
        if uid == A:
            raise StorageError("the disk is full")
        return write(self, uid, *more)

    write = StateFiles.write
    monkeypatch.setattr(StateFiles, "write", fails)
    scene.list(Peer("host", {A: 5, B: 5}))
    with pytest.raises(StorageError, match="the disk is full"):
        collecting(collection)
    assert collection.files.versions == {B: 5}
