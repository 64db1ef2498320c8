"""Steps and disks that take their time, or fail: what counts, what is promised, and what a restart finds."""

from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest
import torch

from averaging.log.disk import Disk
from averaging.log.header import Ballot, Entry, Header, HeaderKind
from averaging.protocol.actions import Apply, Load
from averaging.protocol.catching_up.catching_up import AHEAD
from averaging.protocol.messages import Propose
from averaging.shell.shell import Shell
from tests.averaging.shell.virtual.village import LAYOUT, Village, step_of


async def test_a_batch_of_a_state_before_a_rollback_never_counts(tmp_path: Path) -> None:
    """Not even where the rollback was only ordered, and the state of before is still the newest one that there is."""
    village = Village(tmp_path)
    coordinator = await village.begin(steps=7)
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
        assert shell.progress().is_applying and not shell.may_compute(overlap=True)
        if not begins_before:
            shell.begin_batch()
        assert not shell.contribute(torch.ones(LAYOUT.size), 10), "a gradient of a state that was left behind"
        aside.go_on()
        await village.rest()
        assert not shell.progress().is_applying
    shell.begin_batch()
    assert shell.contribute(torch.ones(LAYOUT.size), 10)


async def test_a_trainer_that_waits_for_a_state_is_woken_by_it(tmp_path: Path) -> None:
    village = Village(tmp_path)
    await village.begin(names=["asha"])
    asha = village.shells["asha.0"]
    await village.until(lambda: step_of(asha) >= 0)
    assert asha.stepping.stepped.is_set(), "it has loaded one"
    for _ in range(2):
        asha.await_state(60.0)
        assert not asha.stepping.stepped.is_set()
        await village.until(asha.stepping.stepped.is_set)


async def test_a_coordinator_that_comes_back_knows_to_whom_its_proposal_gives_power(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others would object to it if nobody could show them who its voters are, and these are gone."""
    village = Village(tmp_path, snapshot_every=1000)
    coordinator = await village.begin(steps=2)
    disk, saved = village.disks[coordinator.machine.me.session], list[Header]()
    save = disk.save_proposal

    def then_be_cut_off(ballot: Ballot, header: Header, contacts: bytes) -> None:
        save(ballot, header, contacts)
        saved.append(header)
        village.is_cut = lambda sender, to: True

    monkeypatch.setattr(disk, "save_proposal", then_be_cut_off)
    await village.until(lambda: saved)
    for shell in list(village.shells.values()):
        await village.die(shell)
    machine = village.add("coordinator", begins=True).machine
    accepted = machine.voting.voter.accepted
    assert accepted is not None and accepted.header == saved[-1] and accepted.header.voters
    assert all(machine._contacts.get(voter) for voter in accepted.header.voters)


def watch_proposals(village: Village, coordinator: Shell, monkeypatch: pytest.MonkeyPatch) -> list[Header]:
    """Returns those that were saved; each must be saved after the entry before it, and before it is sent."""
    session, saved = coordinator.machine.me.session, []
    its = village.disks[session]

    def save(ballot: Ballot, header: Header, contacts: bytes) -> None:
        on_disk = {entry.header.digest for entry in village.credited("coordinator")}
        assert header.previous in on_disk, "its predecessor is not on the disk"
        sent = village.sent[session]
        assert not any(isinstance(one, Propose) and one.ballot == ballot for one in sent), "it was proposed before"
        Disk.save_proposal(its, ballot, header, contacts)
        saved.append(header)

    monkeypatch.setattr(its, "save_proposal", save)
    return saved


async def test_a_proposal_is_on_the_disk_after_the_entries_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A coordinator comes back that has several steps to take, and leads before it has taken them."""
    village = Village(tmp_path, snapshot_every=1000)
    coordinator = await village.begin(names=("abha", "asha", "bela", "chand"), steps=2)
    await village.die(coordinator)
    await village.more_steps(4)
    again = village.add("coordinator", begins=True, seconds=2.5)
    saved = watch_proposals(village, again, monkeypatch)
    await village.until(lambda: len(saved) > 3)


async def test_each_step_is_told_with_the_seconds_of_its_own_round(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process of a coordinator lags behind the rounds that it is in, which others convene meanwhile."""
    village = Village(tmp_path)
    coordinator = await village.begin()
    aside = village.asides["coordinator.0"]
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

    def tell(entry: Entry, seconds: float | None, *_: Any) -> None:
        told[entry.header.step] = seconds

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


async def test_a_disk_of_the_coordinator_that_hangs_holds_nobody_up(tmp_path: Path) -> None:
    village = Village(tmp_path)
    coordinator = await village.begin(steps=4)
    aside = village.asides["coordinator.0"]
    aside.stand_still()
    await village.more_steps(2, seconds=80)  # 20 s until it is late, twice
    await village.more_steps(11, seconds=120)
    aside.go_on()
    await village.until(lambda: step_of(coordinator) == village.newest.step)
    await village.until(lambda: village.newest.ballot.convener == coordinator.machine.me.session)


async def test_a_machine_waits_for_the_steps_of_a_slow_process(tmp_path: Path) -> None:
    """What it holds for it has an end: some updates, not all that the others have made meanwhile."""
    village = Village(tmp_path)
    await village.begin(steps=3)
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
    steps = 3 * (AHEAD + village.snapshot_every) + 1  # what is old goes with the step after a snapshot
    assert most[1] < steps * village.grid.count
    village.asides["dina.0"].seconds = 0.05
    await village.rest()
