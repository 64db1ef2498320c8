"""Steps and disks that take their time, or fail: what counts, what is promised, and what a restart finds."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, cast
from unittest.mock import Mock

import pytest
import torch

import averaging.shell.replay
from averaging.log import disk, log_file, store
from averaging.log.disk import Disk
from averaging.log.header import Ballot, Entry, Header, HeaderKind
from averaging.protocol.actions import Apply, Load
from averaging.protocol.catching_up.catching_up import AHEAD
from averaging.protocol.messages import Propose
from averaging.shell.shell import Shell
from swarm.errors import StorageError
from tests.averaging.shell.village import LAYOUT, Village
from tests.support.virtual_time import in_virtual_time


def step_of(shell: Shell) -> int:
    """Of its state."""
    return -1 if shell.replay.state is None else shell.replay.state.step


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

    monkeypatch.setattr(store, "write_file", limited(store.write_file, "chunks"))
    monkeypatch.setattr(disk, "write_file", limited(disk.write_file, "log"))
    monkeypatch.setattr(log_file, "fsync", limited(log_file.fsync, "log"))
    yield there


def test_a_batch_of_a_state_before_a_rollback_never_counts(tmp_path: Path) -> None:
    """Not even where the rollback was only ordered, and the state of before is still the newest one that there is."""

    async def course() -> None:
        village = Village(tmp_path)
        coordinator = village.add("coordinator", begins=True)
        for name in ("asha", "bela", "chand"):
            village.train(village.add(name))
        await village.until(lambda: len(village.entries) > 7)
        await village.rest()
        shell, aside = village.shells["bela.0"], village.asides["bela.0"]

        def is_ordered(step: int) -> bool:
            return shell.machine.log.tip.step == step

        for begins_before in (True, False):
            aside.stand_still()
            rolled_back = village.newest.step + 1
            if begins_before:
                shell.begin_batch()
            coordinator.roll_back(coordinator.replay.manifest(coordinator.machine.log.snapshots[-1].digest))
            await village.until(partial(is_ordered, rolled_back))
            assert shell.machine.log.tip.kind is HeaderKind.ROLLBACK and step_of(shell) == rolled_back - 1
            assert not shell.may_compute(overlap=True)
            if not begins_before:
                shell.begin_batch()
            assert not shell.contribute(torch.ones(LAYOUT.size), 10), "a gradient of a state that was left behind"
            aside.go_on()
            await village.rest()
        shell.begin_batch()
        assert shell.contribute(torch.ones(LAYOUT.size), 10)
        await village.end()

    in_virtual_time(course)


def watch_proposals(village: Village, coordinator: Shell, monkeypatch: pytest.MonkeyPatch) -> list[Header]:
    """Returns those that were saved; each must be saved after the entry before it, and before it is sent."""
    session, saved = coordinator.machine.me.session, []
    its = village.disks[session]

    def save(ballot: Ballot, header: Header) -> None:
        on_disk = {entry.header.digest for entry in village.credited("coordinator")}
        assert header.previous in on_disk, "its predecessor is not on the disk"
        sent = village.sent[session]
        assert not any(isinstance(one, Propose) and one.ballot == ballot for one in sent), "it was proposed before"
        Disk.save_proposal(its, ballot, header)
        saved.append(header)

    monkeypatch.setattr(its, "save_proposal", save)
    return saved


def test_a_proposal_is_on_the_disk_after_the_entries_before_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A coordinator comes back that has several steps to take, and leads before it has taken them."""

    async def course() -> None:
        village = Village(tmp_path, snapshot_every=1000)
        coordinator = village.add("coordinator", begins=True)
        for name in ("abha", "asha", "bela", "chand"):
            village.train(village.add(name))
        await village.until(lambda: len(village.entries) > 2)
        await village.die(coordinator)
        step = village.newest.step
        await village.until(lambda: village.newest.step > step + 3)
        again = village.add("coordinator", begins=True, seconds=2.5)
        saved = watch_proposals(village, again, monkeypatch)
        await village.until(lambda: len(saved) > 3)
        await village.end()

    in_virtual_time(course)


@pytest.mark.parametrize("for_chunks", [True, False])
def test_a_coordinator_with_a_full_disk_follows_and_convenes_once_it_was_able_to_write(
    tmp_path: Path, room: Room, for_chunks: bool
) -> None:
    async def course() -> None:
        village = Village(tmp_path)
        coordinator = village.add("coordinator", begins=True)
        for name in ("asha", "bela", "chand"):
            village.train(village.add(name))
        await village.until(lambda: len(village.entries) > 3)
        room.log, room.chunks = False, for_chunks
        convening = coordinator.machine.reporting.convening
        if for_chunks:
            await village.until(lambda: not convening.can_convene)
        since = village.newest.step

        def goes_on() -> bool:
            assert not (for_chunks and convening.can_convene), "it convenes, though nothing was written"
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
        await village.end()

    in_virtual_time(course)


def test_each_step_is_told_with_the_seconds_of_its_own_round(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process of a coordinator lags behind the rounds that it is in, which others convene meanwhile."""

    async def course() -> None:
        village = Village(tmp_path)
        coordinator, aside = village.add("coordinator", begins=True), village.asides["coordinator.0"]
        for name in ("asha", "bela", "chand"):
            village.train(village.add(name))
        told: dict[int, float | None] = {}
        expected: dict[int, float | None] = {}
        machine, called = coordinator.machine, [0.0]
        call, apply = machine.voting.call, machine._components.apply

        def calls(ballot: Ballot, now: float) -> Any:
            called[0] = now
            return call(ballot, now)

        def applies(entry: Entry, now: float) -> None:
            expected[entry.header.step] = now - called[0] if called[0] else None
            called[0] = 0.0
            apply(entry, now)

        def tell(entry: Entry) -> None:
            told[entry.header.step] = coordinator.stepping.round_seconds

        monkeypatch.setattr(machine.voting, "call", calls)
        monkeypatch.setattr(machine._components, "apply", applies)
        monkeypatch.setattr(coordinator.stepping, "_applied", tell)
        await village.until(lambda: len(told) > 3)
        aside.stand_still()
        await village.until(lambda: len(expected) > len(told) + 3)
        aside.go_on()
        await village.rest()
        assert told == expected
        assert len({seconds for seconds in told.values() if seconds}) > 5
        await village.end()

    in_virtual_time(course)


def test_a_disk_of_the_coordinator_that_hangs_holds_nobody_up(tmp_path: Path) -> None:
    async def course() -> None:
        village = Village(tmp_path)
        coordinator, aside = village.add("coordinator", begins=True), village.asides["coordinator.0"]
        for name in ("asha", "bela", "chand"):
            village.train(village.add(name))
        await village.until(lambda: len(village.entries) > 4)
        aside.stand_still()
        before = village.newest.step
        await village.until(lambda: village.newest.step > before + 1, seconds=80)  # 20 s until it is late, twice
        before = village.newest.step
        await village.until(lambda: village.newest.step > before + 10, seconds=120)
        aside.go_on()
        await village.until(lambda: step_of(coordinator) == village.newest.step)
        await village.until(lambda: village.newest.ballot.convener == coordinator.machine.me.session)
        await village.end()

    in_virtual_time(course)


def test_what_a_full_disk_needs_is_not_deleted_from_it(tmp_path: Path, room: Room) -> None:
    async def course() -> None:
        village = Village(tmp_path)
        coordinator = village.add("coordinator", begins=True)
        for name in ("asha", "bela", "chand"):
            village.train(village.add(name))
        await village.until(lambda: len(village.entries) > 7)
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
        await village.end()

    in_virtual_time(course)


@pytest.mark.parametrize("name", ["coordinator", "bela"])
def test_a_snapshot_for_which_there_is_no_room_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    failing, left_out = [""], []
    original = averaging.shell.replay.write_snapshot

    def write(state: Any, run: str, header: str, put: Callable[[str, bytes], None]) -> Any:
        manifest = original(state, run, header, put)
        if put.__closure__ and failing[0] and village_of_put(put) is failing[0]:
            left_out.append(manifest)
            raise StorageError("the disk is full")
        return manifest

    def village_of_put(put: Any) -> Any:
        return next((cell.cell_contents for cell in put.__closure__ if hasattr(cell.cell_contents, "restore")), None)

    monkeypatch.setattr(averaging.shell.replay, "write_snapshot", write)

    async def course() -> None:
        village = Village(tmp_path)
        village.add("coordinator", begins=True)
        for one in ("asha", "bela", "chand"):
            village.train(village.add(one))
        await village.until(lambda: len(village.entries) > 3)
        shell = village.shells[f"{name}.0"]
        failing[0] = shell.replay  # type: ignore[call-overload]
        await village.until(lambda: len(left_out) == 2)
        failing[0] = ""
        await village.until(lambda: step_of(shell) > left_out[-1].step)
        assert not any(shell.store.has(digest) for one in left_out for digest in (one.digest, *one.chunks))
        assert shell.machine.log.snapshots[-1].step < left_out[0].step
        if name == "coordinator":
            step = step_of(shell)
            await village.die(shell)
            shell = village.add("coordinator", begins=True)
            assert step_of(shell) == step
        await village.until(lambda: shell.machine.log.snapshots[-1].step > left_out[-1].step)
        await village.rest()
        await village.end()

    in_virtual_time(course)


def test_a_machine_waits_for_the_steps_of_a_slow_process(tmp_path: Path) -> None:
    """What it holds for it has an end: some updates, not all that the others have made meanwhile."""

    async def course() -> None:
        village = Village(tmp_path)
        village.add("coordinator", begins=True)
        for name in ("asha", "bela", "chand"):
            village.train(village.add(name))
        await village.until(lambda: len(village.entries) > 3)
        slow = village.add("dina")
        village.train(slow)
        await village.until(lambda: step_of(slow) >= 0)
        village.asides["dina.0"].seconds = 8.0  # the others take one in 4 s or so
        most, waiting = [0, 0], cast(Any, slow.stepping._waiting)._queue

        def looks() -> bool:
            most[0] = max(most[0], sum(isinstance(one, Apply | Load) for _, one in waiting))
            most[1] = max(most[1], len(village.stores["dina.0"].digests))
            return village.newest.step > 90

        await village.until(looks, 2000.0)
        assert most[0] <= AHEAD
        assert most[1] < 3 * (AHEAD + village.snapshot_every) * village.grid.count
        village.asides["dina.0"].seconds = 0.05
        await village.rest()
        await village.end()

    in_virtual_time(course)


@pytest.mark.parametrize("is_killed", [True, False])
def test_a_snapshot_that_a_full_disk_does_not_take_is_loaded_and_taken_over_later(
    tmp_path: Path, room: Room, is_killed: bool
) -> None:
    async def course() -> None:
        village = Village(tmp_path)
        coordinator = village.add("coordinator", begins=True)
        for name in ("asha", "bela", "chand"):
            village.train(village.add(name))
        await village.until(lambda: len(village.entries) > 3)
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
        await village.end()

    in_virtual_time(course)


def test_a_peer_whose_memory_is_too_small_costs_the_others_nothing(tmp_path: Path) -> None:
    async def course() -> None:
        village = Village(tmp_path)
        village.add("coordinator", begins=True)
        for name in ("bela", "chand", "dina"):
            village.train(village.add(name))
        village.train(small := village.add("asha", memory=2**20))  # a snapshot and two updates
        await village.until(lambda: step_of(small) >= 0 and len(village.entries) > 40)
        assert not small.failure.done()
        await village.end()

    in_virtual_time(course)


def test_a_reducer_without_room_for_its_means_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def course() -> None:
        village = Village(tmp_path)
        village.add("coordinator", begins=True)
        for name in ("asha", "bela", "chand"):
            village.train(village.add(name))
        await village.until(lambda: len(village.entries) > 3)
        with monkeypatch.context() as patched:
            patched.setattr(village.stores["bela.0"], "put", Mock(side_effect=StorageError("there is no room")))
            step = village.newest.step
            await village.until(lambda: village.newest.step > step + 1)
        told = [record.getMessage() for record in caplog.records]
        assert any(one.endswith("cannot be averaged: there is no room") for one in told)
        assert told.count("what others send cannot be kept: there is no room") == 1
        await village.rest()
        await village.end()

    in_virtual_time(course)
