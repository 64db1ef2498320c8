"""Who trains: the choice that is found is the best one, or close to it."""

import itertools

import numpy as np
import pytest

from averaging.load_balancing.closed_form import Floats, Lines
from averaging.load_balancing.roles import choose_trainers, step_seconds
from benchmarks.linear_program import round_rate
from tests.averaging.load_balancing.groups_of_peers import random_lines


def random_group(rng: np.random.Generator, peers: int) -> tuple[Lines, Floats, float]:
    """Lines, samples a second and samples of a step, such that lines and processors both matter."""
    lines = random_lines(rng, peers)
    lines.reachable[rng.integers(peers)] = True
    speeds = np.exp(rng.uniform(-2, 2, peers)) * (rng.random(peers) > 0.15)
    speeds[0] += 0.1
    return lines, speeds, float(np.exp(rng.uniform(-2, 3)))


@pytest.mark.parametrize("overlap", [True, False])
@pytest.mark.parametrize("seed", range(12))
def test_no_choice_of_trainers_with_the_best_split_of_the_whole_program_is_faster(seed: int, overlap: bool):
    rng = np.random.default_rng(seed)
    peers = int(rng.integers(2, 6))
    lines, speeds, samples = random_group(rng, peers)
    chosen = choose_trainers(lines, speeds, samples, overlap=overlap)
    best = np.inf
    for choice in itertools.product([False, True], repeat=peers):
        trains = np.array(choice)
        if speed := float(speeds[trains].sum()):
            slowness = round_rate(lines, trains)
            averaging = 1 / slowness if slowness else np.inf
            best = min(best, max(averaging, samples / speed) if overlap else averaging + samples / speed)
    found = step_seconds(lines, chosen[None], speeds, samples, overlap=overlap)[0]
    assert found == pytest.approx(best, rel=1e-6)


@pytest.mark.parametrize("overlap", [True, False])
@pytest.mark.parametrize("seed", range(30))
def test_the_search_comes_close_to_what_trying_all_finds(seed: int, overlap: bool):
    rng = np.random.default_rng(100 + seed)
    lines, speeds, samples = random_group(rng, int(rng.integers(3, 13)))
    able = np.flatnonzero(speeds)
    choices = np.zeros((2 ** len(able), len(speeds)), dtype=np.bool_)
    choices[:, able] = np.arange(len(choices))[:, None] >> np.arange(len(able)) & 1
    found = choose_trainers(lines, speeds, samples, overlap=overlap)
    searched, *tried = step_seconds(lines, np.vstack([found, choices[1:]]), speeds, samples, overlap=overlap)
    assert searched <= 1.05 * min(tried)


def test_everybody_trains_when_averaging_keeps_up_with_computing():
    rng = np.random.default_rng(5)
    lines, speeds, _ = random_group(rng, 40)
    assert (choose_trainers(lines, speeds, 1e9, overlap=True) == (speeds > 0)).all()


def test_of_equally_fast_choices_the_one_with_more_samples_is_taken():
    # the round waits for the thin download of the last peer, whoever else trains
    lines = Lines(np.full(5, 100.0), np.array([100.0, 100.0, 100.0, 100.0, 0.5]), np.ones(5, dtype=bool))
    assert choose_trainers(lines, np.array([1.0, 1.0, 1.0, 1.0, 0.0]), 1.0, overlap=True).sum() == 4


@pytest.mark.parametrize("overlap", [True, False])
@pytest.mark.parametrize("peers", [1, 2])
def test_one_that_alone_can_train_does(peers: int, overlap: bool):
    lines = Lines(np.ones(peers), np.ones(peers), np.ones(peers, dtype=bool))
    assert choose_trainers(lines, np.eye(peers)[0], 1.0, overlap=overlap).tolist() == [True, False][:peers]
