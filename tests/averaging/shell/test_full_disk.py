"""A shell whose disk or memory is full does what it can, and the rest once there is room."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

import averaging.shell.replay
from averaging.log import content_store, disk, entry_file
from averaging.log.content_store import Store
from swarm.errors import StorageError
from tests.averaging.shell.virtual.village import Village, step_of


@dataclass
class Room:
    """On all disks: for the log and the small files beside it, and for chunks."""

    log: bool = True
    chunks: bool = True


@pytest.fixture
def room(monkeypatch: pytest.MonkeyPatch) -> Iterator[Room]:
    """There is, until a test says otherwise."""
    there = Room()

    def limited(original: Callable[..., None], for_what: str) -> Callable[..., None]:
        def write(*arguments: Any, **named: Any) -> None:
            if not getattr(there, for_what):
                raise StorageError("the disk is full")
            original(*arguments, **named)

        return write

    monkeypatch.setattr(content_store, "write_file", limited(content_store.write_file, "chunks"))
    monkeypatch.setattr(disk, "write_file", limited(disk.write_file, "log"))
    monkeypatch.setattr(entry_file, "fsync", limited(entry_file.fsync, "log"))
    yield there


@pytest.mark.parametrize("for_chunks", [True, False])
async def test_a_coordinator_with_a_full_disk_follows_and_convenes_once_it_was_able_to_write(
    tmp_path: Path, room: Room, for_chunks: bool
) -> None:
    village = Village(tmp_path)
    coordinator = await village.begin(steps=3)
    room.log, room.chunks = False, for_chunks
    choice = coordinator.machine.progress.choice
    if for_chunks:
        await village.until(lambda: not choice.can_convene)
    since = village.newest.step

    def goes_on() -> bool:
        assert not (for_chunks and choice.can_convene), "it convenes, though nothing was written"
        return village.newest.step > since + 12  # two snapshots

    await village.until(goes_on)
    head = coordinator.machine.log.tip.step
    assert head > since + 10 or not for_chunks
    room.log = room.chunks = True
    step = village.newest.step
    await village.until(lambda: village.newest.tie_breaker == "coordinator.0" and village.newest.step > step + 2)
    await village.until(lambda: village.newest.ballot.convener == "coordinator.0")
    await village.until(lambda: step_of(coordinator) >= step)
    await village.die(coordinator)
    again = village.add("coordinator", begins=True)
    assert step_of(again) >= step
    await village.rest()


async def test_what_a_full_disk_needs_is_not_deleted_from_it(tmp_path: Path, room: Room) -> None:
    village = Village(tmp_path)
    coordinator = await village.begin(steps=7)
    await village.rest()
    step = step_of(coordinator)
    for name in ("asha", "bela", "chand"):
        village.train(village.shells[f"{name}.0"])
    room.log = False
    await village.until(lambda: step_of(coordinator) > step + 15)  # its snapshots are newer than those of the disk
    await village.die(coordinator)
    room.log = True
    again = village.add("coordinator", begins=True)
    assert step_of(again) == step
    await village.until(lambda: village.newest.tie_breaker == "coordinator.1")
    await village.rest()


@pytest.mark.parametrize("name", ["coordinator", "bela"])
async def test_a_snapshot_for_which_there_is_no_room_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    failing, left_out = [""], []
    original = averaging.shell.replay.write_snapshot

    def write(state: Any, run: str, header: str, put: Callable[[str, bytes], None]) -> Any:
        manifest = original(state, run, header, put)
        if failing[0] and store_of_put(put) is failing[0]:
            left_out.append(manifest)
            raise StorageError("the disk is full")
        return manifest

    def store_of_put(put: Any) -> Any:
        contents = [cell.cell_contents for cell in put.__closure__ or ()]
        return next((one for one in contents if isinstance(one, Store)), None)

    monkeypatch.setattr(averaging.shell.replay, "write_snapshot", write)
    village = Village(tmp_path)
    await village.begin(steps=3)
    shell = village.shells[f"{name}.0"]
    failing[0] = shell.replay.store  # type: ignore[call-overload]
    await village.until(lambda: len(left_out) == 2)
    failing[0] = ""
    await village.until(lambda: step_of(shell) > left_out[-1].step)
    assert not any(shell.replay.store.has(digest) for one in left_out for digest in (one.digest, *one.chunks))
    assert shell.machine.log.snapshots[-1].step < left_out[0].step
    if name == "coordinator":
        step = step_of(shell)
        await village.die(shell)
        shell = village.add("coordinator", begins=True)
        assert step_of(shell) == step
    await village.until(lambda: shell.machine.log.snapshots[-1].step > left_out[-1].step)
    await village.rest()


@pytest.mark.parametrize("is_killed", [True, False])
async def test_a_snapshot_that_a_full_disk_does_not_take_is_loaded_and_taken_over_later(
    tmp_path: Path, room: Room, is_killed: bool
) -> None:
    village = Village(tmp_path)
    coordinator = await village.begin(steps=3)
    await village.die(coordinator)
    old = village.newest.step
    await village.until(lambda: village.newest.step > old + 12)
    room.log = False
    coordinator = village.add("coordinator", begins=True)
    await village.until(lambda: coordinator.replay.loaded)
    await village.until(lambda: step_of(coordinator) > old + 20)
    step = step_of(coordinator)
    if not is_killed:
        room.log = True
        await village.until(lambda: step_of(coordinator) > step + 2)
    await village.die(coordinator)
    room.log = True
    again = village.add("coordinator", begins=True)
    assert step_of(again) <= old if is_killed else step_of(again) > step
    await village.until(lambda: village.newest.tie_breaker == "coordinator.2")
    await village.rest()


async def test_a_peer_whose_memory_is_too_small_costs_the_others_nothing(tmp_path: Path) -> None:
    village = Village(tmp_path)
    await village.begin(names=("bela", "chand", "dina"))
    village.train(small := village.add("asha", memory=2**20))  # a snapshot and two updates
    await village.until(lambda: step_of(small) >= 0 and len(village.entries) > 40)
    assert not small.failure.done()


async def test_a_reducer_without_room_for_its_means_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    village = Village(tmp_path)
    await village.begin(steps=3)
    with monkeypatch.context() as patched:
        patched.setattr(village.stores["bela.0"], "put", Mock(side_effect=StorageError("there is no room")))
        await village.more_steps(2)
    told = [record.getMessage() for record in caplog.records]
    assert any(one.endswith("cannot be averaged: there is no room") for one in told)
    assert told.count("what others send cannot be kept: there is no room") == 1
    await village.rest()
