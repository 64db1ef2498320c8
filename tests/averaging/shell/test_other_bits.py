"""Processors whose arithmetic gives other bits take part, and go on from the snapshots that headers name."""

from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

from averaging.log.state import State
from averaging.shell.shell import Shell
from tests.averaging.shell.virtual.village import LAYOUT, Village


def drifts(shell: Shell, share: float) -> None:
    """Each of its steps ends beside the others', by a share of what the step has changed."""
    step: Callable[[State, Tensor], State] = shell.replay._optimizer.step
    noise = torch.randn(LAYOUT.size, generator=torch.Generator().manual_seed(1))

    def beside(state: State, gradient: Tensor) -> State:
        after = step(state, gradient)
        after.parameters += share * noise * (after.parameters - state.parameters).norm() / noise.norm()
        return after

    shell.replay._optimizer.step = beside  # type: ignore[method-assign]


async def test_a_lone_trainer_with_other_bits_does_not_stop_the_run(tmp_path: Path) -> None:
    village = Village(tmp_path)
    coordinator, trainer = village.add("coordinator", begins=True), village.add("asha", reachable=False)
    drifts(trainer, 1e-3)
    village.train(trainer)
    await village.until(lambda: len(village.entries) > 17)
    await village.rest()
    named = village.newest.snapshot
    assert named is not None and named in trainer.machine.log.snapshots
    assert trainer.machine.adopting.adopted >= 2 and not coordinator.machine.adopting.adopted
    mine, theirs = trainer.replay.state, coordinator.replay.state
    assert mine is not None and theirs is not None
    assert 0 < (mine.parameters - theirs.parameters).norm() < 1e-2 * theirs.parameters.norm()


async def test_a_trainer_that_computes_something_else_votes_for_no_snapshot(tmp_path: Path) -> None:
    village = Village(tmp_path)
    coordinator = village.add("coordinator", begins=True)
    trainers = [village.add(name) for name in ("asha", "bela", "chand")]
    drifts(trainers[0], 0.5)
    for trainer in trainers:
        village.train(trainer)
    objected = trainers[0].machine.voting
    await village.until(lambda: objected.objected is not None)
    assert objected.objected is not None and "another snapshot" in objected.objected[1]
    await village.until(lambda: trainers[0].machine.adopting.adopted)  # the others have voted for it
    await village.more_steps(6)
    assert not trainers[0].machine.adopting._near and not coordinator.machine.adopting.adopted
