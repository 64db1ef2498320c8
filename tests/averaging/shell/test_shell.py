"""Whole peers without sockets, in virtual time: what one process would learn, several learn together, byte for byte."""

import asyncio
from collections import Counter
from pathlib import Path

import pytest
import torch

from averaging.log.header import HeaderKind
from averaging.optimizers.state_step import StateOptimizer, initial_state
from averaging.protocol.messages import Goodbye, Message, Piece
from averaging.shell.shell import Shell
from tests.averaging.shell.virtual.village import LAYOUT, OPTIMIZER, Village


def states_are_equal(*shells: Shell) -> None:
    """To the byte."""
    first, *others = (shell.replay.state for shell in shells)
    assert first is not None
    for other in others:
        assert other is not None and other.step == first.step and other.updates == first.updates
        for ours, theirs in zip((first.parameters, *first.moments), (other.parameters, *other.moments), strict=True):
            assert torch.equal(ours, theirs)


@pytest.mark.parametrize("compression", ["none", "float16", "8bit"])
async def test_peers_learn_together_and_hold_the_same_bytes(tmp_path: Path, compression: str) -> None:
    village = Village(tmp_path, compression=compression)  # type: ignore[arg-type]
    coordinator = await village.begin(names=("asha", "bela"), overlap=True)
    village.train(village.add("chand", reachable=False), overlap=True)
    before = village.distance(coordinator)
    await village.until(lambda: len(village.entries) > 12)
    await village.rest()
    states_are_equal(*village.shells.values())
    assert village.distance(coordinator) < before


async def test_several_peers_are_one_process_with_all_their_batches(tmp_path: Path) -> None:
    """Masked tokens count alike, whoever computed them; without overlap, and without compression."""
    village = Village(tmp_path, snapshot_every=1000)
    coordinator = village.add("coordinator", begins=True)
    goals = {"asha": torch.zeros(LAYOUT.size), "bela": village.goal, "chand": -3 * village.goal}
    for number, (name, goal) in enumerate(goals.items()):
        village.train(village.add(name), goal=goal, tokens=40 + 30 * number, seconds=0.5 + 0.2 * number)
    await village.until(lambda: len(village.entries) > 10)
    await village.rest()
    alone = StateOptimizer(LAYOUT, OPTIMIZER)
    expected = initial_state(LAYOUT, village.first_tensors())
    for step in range(1, max(village.entries) + 1):
        members = [one for one in village.entries[step].header.members if one.weight]
        total = sum(one.weight for one in members)
        gradient = sum(one.weight / total * (expected.parameters - goals[one.user]) for one in members)
        assert isinstance(gradient, torch.Tensor)
        expected = alone.step(expected, gradient)
    state = coordinator.replay.state
    assert state is not None and len({one.user for one in members}) > 1
    way = expected.parameters - initial_state(LAYOUT, village.first_tensors()).parameters
    assert float((state.parameters - expected.parameters).norm() / way.norm()) < 1e-5


async def test_with_overlap_each_batch_counts_as_computed_from_a_state_at_most_two_steps_old(tmp_path: Path) -> None:
    """One process that applies the same batches, each from the state that its peer had, comes to the same state.

    A batch is added only while its state is at most one step old; one that ends in an open round goes into the next.
    """
    village = Village(tmp_path, snapshot_every=1000)
    coordinator = village.add("coordinator", begins=True)
    goals = {"asha": torch.zeros(LAYOUT.size), "bela": village.goal, "chand": -3 * village.goal}
    computed: dict[tuple[str, int], list[tuple[int, int]]] = {}  # state's step and tokens, by session and buffer

    async def train(shell: Shell, goal: torch.Tensor, tokens: int, seconds: float) -> None:
        while True:
            if not shell.may_compute(overlap=True):
                await asyncio.sleep(0.1)
                continue
            state = shell.begin_batch()
            await asyncio.sleep(seconds)
            buffer = shell.machine.me.session, shell.machine.buffers.open_number
            if shell.contribute((state.parameters - goal) * tokens, tokens, samples=tokens):
                computed.setdefault(buffer, []).append((state.step, tokens))

    for number, (name, goal) in enumerate(goals.items()):
        shell = village.add(name, seconds=1.0)
        work = train(shell, goal, 40 + 30 * number, 0.5 + 0.2 * number)
        village.trainers[shell.machine.me.session] = asyncio.get_running_loop().create_task(work)
    await village.until(lambda: len(village.entries) > 10)
    await village.rest()
    alone = StateOptimizer(LAYOUT, OPTIMIZER)
    states = [initial_state(LAYOUT, village.first_tensors())]
    staleness: Counter[int] = Counter()
    for step in range(1, max(village.entries) + 1):
        members = village.entries[step].header.members
        gradient = torch.zeros(LAYOUT.size)
        for member in members:
            for at, tokens in (one for number in member.buffers for one in computed[member.session, number]):
                staleness[step - 1 - at] += 1
                gradient += tokens * (states[at].parameters - goals[member.user])
        states.append(alone.step(states[-1], gradient / sum(one.weight for one in members)))
    assert set(staleness) <= {0, 1, 2} and staleness[0] and staleness[1] > staleness[2]
    state = coordinator.replay.state
    assert state is not None
    way = states[-1].parameters - states[0].parameters
    assert float((state.parameters - states[-1].parameters).norm() / way.norm()) < 1e-5


async def test_who_comes_later_loads_a_snapshot_and_takes_the_steps_since(tmp_path: Path) -> None:
    village = Village(tmp_path, compression="8bit")
    await village.begin(names=("asha", "bela"), steps=8)
    newcomer = village.add("chand")
    village.train(newcomer)
    await village.until(lambda: any(one.user == "chand" and one.weight for one in village.newest.members))
    await village.rest()
    assert newcomer.replay.loaded == 1
    states_are_equal(*village.shells.values())


async def test_a_reducer_that_dies_in_a_round_costs_that_part_a_stand_in_and_not_the_round(tmp_path: Path) -> None:
    village = Village(tmp_path)
    await village.begin(steps=2)
    victim = village.shells["bela.0"]
    await village.until(lambda: victim.machine.reducing.plan is not None)
    plan = victim.machine.reducing.plan
    assert plan is not None and any(part.reducer == "bela.0" for part in plan.parts)
    await village.die(victim)
    await village.until(lambda: plan.instance in {one.header.previous for one in village.entries.values()})
    step = next(one.header for one in village.entries.values() if one.header.previous == plan.instance)
    assert step.ballot == plan.ballot, "the round was begun again"
    await village.until(lambda: len(village.entries) > step.step + 2)
    await village.rest()
    states_are_equal(*village.shells.values())


@pytest.mark.parametrize("bad", [b"", b"\xff" * 100, None], ids=["empty", "noise", "another"])
async def test_pieces_that_are_none_cost_only_their_sender(tmp_path: Path, bad: bytes | None) -> None:
    village = Village(tmp_path, compression="8bit")

    def spoil(sender: str, message: Message, payload: bytes | None) -> bytes | None:
        if sender != "liar.0" or not isinstance(message, Piece) or payload is None:
            return payload
        return payload[:-1] + bytes([payload[-1] ^ 1]) if bad is None else bad  # another gradient, or none

    village.spoil = spoil
    await village.begin(names=("asha", "bela", "liar"), steps=6)
    await village.rest()
    states_are_equal(*village.shells.values())
    lost = {one.session for entry in village.entries.values() for one in entry.header.exclusions}
    credited = [one for entry in village.entries.values() for one in entry.header.members if one.user == "liar"]
    assert lost == (set() if bad is None else {"liar.0"})
    assert any(one.weight for one in credited)  # the parts that it reduced itself have its share


async def test_a_coordinator_that_was_killed_after_a_rollback_goes_on_from_its_disk(tmp_path: Path) -> None:
    village = Village(tmp_path)
    coordinator = await village.begin(steps=7)
    coordinator.roll_back(coordinator.replay.manifest(coordinator.machine.log.snapshots[-1].digest))
    await village.until(lambda: any(one.header.kind is HeaderKind.ROLLBACK for one in village.entries.values()))
    rolled_back = village.newest.step
    await village.until(lambda: coordinator.replay.state is not None and coordinator.replay.state.step > rolled_back)
    await village.die(coordinator)
    again = village.add("coordinator", begins=True)
    assert again.machine.head is not None and again.machine.head.step > rolled_back
    assert again.replay.loaded == 0, "it asked others for a state"
    await village.until(lambda: village.newest.tie_breaker == "coordinator.1")
    await village.rest()
    states_are_equal(*village.shells.values())


async def test_a_goodbye_is_the_last_word_of_a_peer_that_is_still_connected(tmp_path: Path) -> None:
    """The others count on it: one that has left promises and accepts nothing any more."""
    village = Village(tmp_path)
    await village.begin(steps=3)
    leaver = village.shells["bela.0"]
    village.trainers.pop("bela.0").cancel()
    leaver.leave()
    said = len(village.sent["bela.0"])
    assert any(isinstance(message, Goodbye) for message in village.sent["bela.0"])
    await village.more_steps(4)
    assert len(village.sent["bela.0"]) == said
    await village.die(leaver)
    await village.rest()


async def test_a_trainer_that_has_brought_the_whole_batch_computes_on_while_it_is_averaged(tmp_path: Path) -> None:
    village = Village(tmp_path)
    await village.begin(names=["asha"], overlap=True)
    asha = village.shells["asha.0"]
    buffers = asha.machine.buffers
    await village.until(lambda: buffers.closed and buffers.samples >= village.target)
    assert asha.may_compute(overlap=True)
    assert not asha.may_compute(overlap=False)
