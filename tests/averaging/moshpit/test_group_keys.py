"""Moshpit's groups: on a full grid the mean is exact after d rounds, and no two peers meet twice until then."""

import itertools

import numpy as np
import pytest

from averaging.moshpit.group_keys import (
    first_keys,
    following_keys,
    groups_of,
    index_bits,
    indices,
    key_bits,
    meeting,
    rounds_to_mix,
)

GRIDS = [(0, 8), (2, 4), (3, 8), (4, 4), (5, 2), (6, 8), (3, 4), (5, 4), (2, 16), (7, 8)]


def one_round(keys: list[str], values: np.ndarray, group_size: int, number: int) -> tuple[list[str], np.ndarray]:
    """Every group averages and gives its members new keys."""
    values = values.copy()
    for members in meeting(keys).values():
        values[members] = values[members].mean(axis=0)
    return following_keys(keys, group_size, str(number)), values


@pytest.mark.parametrize("bits, group_size", GRIDS)
def test_on_a_full_grid_the_mean_is_exact_after_d_rounds_and_not_before(bits: int, group_size: int) -> None:
    keys = first_keys(2**bits * group_size, group_size)
    assert len(keys[0]) == bits
    values = np.random.default_rng(0).normal(size=(len(keys), 3))
    mean, rounds = values.mean(axis=0), rounds_to_mix(bits, group_size)
    for number in range(rounds):
        assert np.abs(values - mean).max() > 1e-3
        keys, values = one_round(keys, values, group_size, number)
        assert {len(members) for members in meeting(keys).values()} == {group_size}
    assert np.abs(values - mean).max() < 1e-12


def test_no_two_peers_meet_twice_in_d_rounds() -> None:
    bits, group_size = 6, 8
    keys = first_keys(2**bits * group_size, group_size)
    met: set[tuple[int, int]] = set()
    for number in range(rounds_to_mix(bits, group_size)):
        pairs = {(a, b) for members in meeting(keys).values() for a in members for b in members if a < b}
        assert not met & pairs
        met |= pairs
        keys = following_keys(keys, group_size, str(number))


def test_without_a_full_grid_the_error_falls_with_every_round() -> None:
    peers, group_size = 1000, 16
    keys = first_keys(peers, group_size)
    values = np.random.default_rng(1).normal(size=(peers, 1))
    errors = []
    for number in range(4):
        keys, values = one_round(keys, values, group_size, number)
        errors.append(float(values.var()))
    assert all(after < before / 3 for before, after in itertools.pairwise(errors))


BITS = {(1, 16): 0, (16, 16): 0, (17, 16): 1, (33, 16): 2, (1000, 16): 6, (8, 2): 2, (7, 2): 1, (3, 2): 0, (9, 2): 2}


@pytest.mark.parametrize("peers, size, bits", [(*key, bits) for key, bits in BITS.items()])
def test_groups_are_as_large_as_they_are_meant_to_be_and_never_of_one(peers: int, size: int, bits: int) -> None:
    assert key_bits(peers, size) == bits
    assert min(len(members) for members in meeting(first_keys(peers, size)).values()) >= min(peers, 2)


@pytest.mark.parametrize("members", [1, 3, 8, 11, 20])
def test_indices_are_as_different_as_can_be_and_the_same_for_all(members: int) -> None:
    drawn = indices("group", members, 8)
    assert drawn == indices("group", members, 8)
    assert len(drawn) == members
    assert set(drawn) <= set(range(8))
    assert max(map(drawn.count, drawn)) == -(-members // 8)


def test_all_that_know_the_sessions_find_the_same_groups_and_others_in_the_next_step() -> None:
    sessions = [f"peer {number}" for number in range(50)]
    found = {one: groups_of(one, reversed(sessions), 8, None, "step 1") for one in sessions}
    for one, rounds in found.items():
        assert len(rounds) == rounds_to_mix(key_bits(50, 8), 8)
        for number, members in enumerate(rounds):
            assert one in members
            assert all(found[other][number] == members for other in members)
    assert found != {one: groups_of(one, sessions, 8, None, "step 2") for one in sessions}
    assert len(groups_of("peer 1", sessions, 8, 5, "step 1")) == 5
    assert groups_of("peer 1", ["peer 1"], 8, 5, "step 1") == [["peer 1"]]


@pytest.mark.parametrize("size", [0, 1, 3, 6])
def test_groups_are_a_power_of_two(size: int) -> None:
    with pytest.raises(ValueError, match="power of two"):
        index_bits(size)
