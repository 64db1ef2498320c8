"""A liar among whole peers, in virtual time: what its gradients do, and who is told of them."""

from pathlib import Path

import pytest
import torch

from averaging.log.credit import contributions, loudness
from averaging.log.shares import counted
from averaging.optimizers.state_step import StateOptimizer, initial_state
from averaging.reduce.clipping import Robust
from coordinator.ledger.rounds import LoudGradients
from tests.averaging.shell.virtual.village import LAYOUT, OPTIMIZER, Village

HONEST = ("asha", "bela", "chand", "dipa", "esha")


async def run_with_a_liar(village: Village, times: float, steps: int) -> float:
    """How far the parameters are from the goal then, as a part of the distance at the beginning."""
    coordinator = village.add("coordinator", begins=True)
    for name in HONEST:
        village.train(village.add(name))
    village.train(village.add("eve"), times=times)
    before = village.distance(coordinator)
    await village.until(lambda: len(village.entries) >= steps)
    await village.rest()
    return village.distance(coordinator) / before


def flagged(village: Village) -> list[tuple[str, str]]:
    watch = LoudGradients()
    headers = [village.entries[step].header for step in sorted(village.entries)]
    return [(flag.user, flag.what) for header in headers for flag in watch.flags(header)]


@pytest.mark.parametrize("robust", ["off", "watch", "enforce"])
async def test_gradients_times_minus_10_drive_a_run_away_from_its_goal_unless_they_are_scaled_down(
    tmp_path: Path, robust: Robust
) -> None:
    village = Village(tmp_path, robust=robust, target=600)
    left = await run_with_a_liar(village, -10.0, 12)
    assert left < 0.9 if robust == "enforce" else left > 1.0
    expected = [("eve", "sends gradients 10 times as large as its samples explain")]
    assert flagged(village) == ([] if robust == "off" else expected)


async def test_nobody_is_flagged_where_nobody_lies(tmp_path: Path) -> None:
    village = Village(tmp_path, robust="watch", target=600)
    assert await run_with_a_liar(village, 1.0, 8) < 0.9
    assert not flagged(village)
    assert not any(loudness(entry.header) for entry in village.entries.values())


@pytest.mark.parametrize(
    ("doubted", "most"), [({"somebody else"}, 0.25), ({"eve"}, 0.0)], ids=["usual bound", "on probation"]
)
async def test_the_heaviest_user_counts_with_its_share_and_is_credited_with_it(
    tmp_path: Path, doubted: set[str], most: float
) -> None:
    """The states are those of one process with the bounded weights. The usual bound is one and a half equal shares."""
    village = Village(tmp_path, robust="enforce", snapshot_every=1000, target=2000, on_probation=frozenset(doubted))
    coordinator = village.add("coordinator", begins=True)
    goals = {name: number * village.goal for number, name in enumerate((*HONEST, "eve"), 1)}
    for name, goal in goals.items():
        village.train(village.add(name), goal=goal, tokens=1500 if name == "eve" else 100)
    await village.until(lambda: len(village.entries) > 8)
    await village.rest()
    alone = StateOptimizer(LAYOUT, OPTIMIZER)
    expected = initial_state(LAYOUT, village.first_tensors())
    first, shares = expected.parameters, []
    for step in range(1, max(village.entries) + 1):
        header = village.entries[step].header
        members = [one for one in header.members if one.weight]
        assert header.on_probation == (("eve",) if "eve" in doubted else ())
        bounds = counted([one.user for one in members], [one.weight for one in members], header.on_probation)
        gradient = sum(
            bound / sum(bounds) * (expected.parameters - goals[one.user])
            for one, bound in zip(members, bounds, strict=True)
        )
        assert isinstance(gradient, torch.Tensor)
        expected = alone.step(expected, gradient)
        credit = {one.user: float(one.tokens) for one in contributions(header, enforces=True)}
        shares.append(credit.get("eve", 0.0) / sum(credit.values()))
    state = coordinator.replay.state
    assert state is not None
    assert float((state.parameters - expected.parameters).norm() / (expected.parameters - first).norm()) < 1e-5
    assert max(shares) == pytest.approx(most, abs=0.01)
