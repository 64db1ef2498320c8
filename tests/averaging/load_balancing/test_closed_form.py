"""The shortest round for given trainers: closed form, whole program and brute force agree."""

import itertools

import numpy as np
import pytest

from averaging.load_balancing.closed_form import Lines, best_shares, round_seconds
from benchmarks.linear_program import round_rate
from tests.averaging.load_balancing.groups_of_peers import counted_seconds, random_lines, random_trainers

GRID = 24  # steps of a share in the exhaustive search


def rate(seconds: float) -> float:
    return 1.0 / seconds if seconds else np.inf


@pytest.mark.parametrize("seed", range(150))
def test_the_closed_form_has_the_optimum_of_the_whole_program(seed: int):
    rng = np.random.default_rng(seed)
    peers = int(rng.integers(2, 8))
    lines, trains = random_lines(rng, peers), random_trainers(rng, peers)
    seconds = round_seconds(lines, trains[None])[0]
    assert rate(seconds) == pytest.approx(round_rate(lines, trains), rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("seed", range(150))
def test_the_shares_reach_that_optimum_when_every_message_is_counted(seed: int):
    rng = np.random.default_rng(1000 + seed)
    peers = int(rng.integers(2, 12))
    lines, trains = random_lines(rng, peers), random_trainers(rng, peers)
    seconds = round_seconds(lines, trains[None])[0]
    if not np.isfinite(seconds):
        assert not lines.reachable.any()
        return
    shares = best_shares(lines, trains, seconds)
    assert shares.min() >= 0.0
    assert shares.sum() == pytest.approx(1.0)
    assert counted_seconds(lines, trains, shares) == pytest.approx(seconds, rel=1e-9)


@pytest.mark.parametrize("seed", range(25))
def test_no_split_on_a_fine_grid_is_faster(seed: int):
    rng = np.random.default_rng(2000 + seed)
    lines, trains = random_lines(rng, 3), random_trainers(rng, 3)
    seconds = round_seconds(lines, trains[None])[0]
    splits = [(a, b, GRID - a - b) for a, b in itertools.product(range(GRID + 1), repeat=2) if a + b <= GRID]
    best = min(counted_seconds(lines, trains, np.array(split) / GRID) for split in splits)
    assert best >= seconds * (1 - 1e-9)
    assert not np.isfinite(seconds) or best <= seconds * (1 + 6 / GRID)  # and the grid comes close to it


def test_many_choices_at_once_give_what_each_gives_alone():
    rng = np.random.default_rng(8)
    lines = random_lines(rng, 20)
    choices = np.array([random_trainers(rng, 20) for _ in range(30)])
    together = round_seconds(lines, choices)
    assert together.tolist() == [round_seconds(lines, choice[None])[0] for choice in choices]


def test_the_papers_program_without_owners_of_parts_is_never_worse_and_mostly_the_same():
    rng = np.random.default_rng(9)
    gains = []
    for _ in range(100):
        lines, trains = random_lines(rng, 4), random_trainers(rng, 4)
        if lines.reachable.any():
            gains.append(round_rate(lines, trains, averaged_once=False) / round_rate(lines, trains))
    assert min(gains) >= 1 - 1e-6
    assert np.mean(np.array(gains) > 1 + 1e-6) < 0.15


def test_a_line_that_carries_nothing_makes_the_round_endless():
    lines = Lines(np.array([1.0, 0.0, 1.0]), np.ones(3), np.ones(3, dtype=bool))
    choices = np.array([[True, True, True], [True, False, True]])
    seconds = round_seconds(lines, choices)
    assert np.isinf(seconds[0])
    assert np.isfinite(seconds[1])
