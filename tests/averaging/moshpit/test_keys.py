"""Moshpit's groups: on a full grid the mean is exact after d rounds, and nobody meets anybody twice until then."""

import itertools
import re

import numpy as np
import pytest
from hivemind.averaging.key_manager import GROUP_PATTERN

from trainer.averaging.moshpit.keys import (
    first_key,
    index_bits,
    indices,
    key_bits,
    meeting,
    next_key,
    resized_key,
    rounds_to_mix,
)

GRIDS = [(0, 8), (2, 4), (3, 8), (4, 4), (5, 2), (6, 8), (3, 4), (5, 4), (2, 16), (7, 8)]


def full_grid(bits: int, group_size: int) -> list[str]:
    return [f"{group:0{bits}b}" if bits else "" for group in range(2**bits) for _ in range(group_size)]


def one_round(keys: list[str], values: np.ndarray, group_size: int, number: int) -> tuple[list[str], np.ndarray]:
    """Every group averages and gives its members new keys."""
    keys, values = list(keys), values.copy()
    for key, members in meeting(keys).items():
        values[members] = values[members].mean(axis=0)
        for member, index in zip(members, indices(f"{number}/{key}".encode(), len(members), group_size), strict=True):
            keys[member] = next_key(key, index, group_size)
    return keys, values


@pytest.mark.parametrize("bits, group_size", GRIDS)
def test_on_a_full_grid_the_mean_is_exact_after_d_rounds_and_not_before(bits: int, group_size: int):
    keys = full_grid(bits, group_size)
    values = np.random.default_rng(0).normal(size=(len(keys), 3))
    mean, rounds = values.mean(axis=0), rounds_to_mix(bits, group_size)
    for number in range(rounds):
        assert np.abs(values - mean).max() > 1e-3
        keys, values = one_round(keys, values, group_size, number)
        assert {len(members) for members in meeting(keys).values()} == {group_size}
    assert np.abs(values - mean).max() < 1e-12


def test_nobody_meets_twice_in_d_rounds():
    bits, group_size = 6, 8
    keys = full_grid(bits, group_size)
    met: set[tuple[int, int]] = set()
    for number in range(rounds_to_mix(bits, group_size)):
        pairs = {(a, b) for members in meeting(keys).values() for a in members for b in members if a < b}
        assert not met & pairs
        met |= pairs
        keys, _ = one_round(keys, np.zeros((len(keys), 1)), group_size, number)


def test_without_a_grid_the_error_falls_with_every_round():
    peers, group_size = 1000, 16
    bits = key_bits(peers, group_size)
    keys = [first_key(f"peer {number}".encode(), bits) for number in range(peers)]
    values = np.random.default_rng(1).normal(size=(peers, 1))
    errors = []
    for number in range(4):
        keys, values = one_round(keys, values, group_size, number)
        errors.append(float(values.var()))
    assert all(after < before / 3 for before, after in itertools.pairwise(errors))


@pytest.mark.parametrize("peers, bits", [(1, 0), (16, 0), (17, 1), (32, 1), (33, 2), (1000, 6), (10_000, 10)])
def test_bits_follow_the_number_of_peers(peers: int, bits: int):
    assert key_bits(peers, 16) == bits
    assert peers / 2**bits <= 16


def test_bits_do_not_change_with_every_peer_that_comes_and_goes():
    bits, seen = 4, set()
    for peers in (250, 257, 240, 262, 255, 258, 251):
        bits = key_bits(peers, 16, bits)
        seen.add(bits)
    assert seen == {4}
    assert key_bits(400, 16, 4) == 5
    assert key_bits(160, 16, 4) == 4
    assert key_bits(100, 16, 4) == 3
    assert key_bits(3, 16, 4) == 0


def test_eight_peers_in_groups_of_two_have_two_bits():
    assert (key_bits(8, 2), rounds_to_mix(2, 2)) == (2, 3)


def test_a_group_is_split_and_joined_by_one_bit():
    ids = [f"peer {number}".encode() for number in range(64)]
    keys = [resized_key("10", 3, own) for own in ids]
    assert set(keys) == {"010", "110"}
    assert 20 < keys.count("010") < 44
    assert {resized_key(key, 2, own) for key, own in zip(keys, ids, strict=True)} == {"10"}
    assert resized_key("101", 0, b"") == ""
    assert len(resized_key("", 5, b"x")) == 5


def test_first_keys_are_spread_evenly_and_do_not_change():
    keys = [first_key(f"peer {number}".encode(), 3) for number in range(800)]
    sizes = [len(members) for members in meeting(keys).values()]
    assert len(sizes) == 8
    assert max(sizes) < 140
    assert keys[5] == first_key(b"peer 5", 3)


@pytest.mark.parametrize("members", [1, 3, 8, 11, 20])
def test_indices_are_as_different_as_can_be_and_the_same_for_all(members: int):
    drawn = indices(b"group", members, 8)
    assert drawn == indices(b"group", members, 8)
    assert len(drawn) == members
    assert set(drawn) <= set(range(8))
    assert max(map(drawn.count, drawn)) == -(-members // 8)


def test_keys_are_those_of_hivemind():
    key = next_key(first_key(b"peer", 5), 6, 8)
    assert re.fullmatch(GROUP_PATTERN, f"run_grad_averager.0b{key}")
    assert key.endswith("110")
    assert len(key) == 5


@pytest.mark.parametrize("size", [0, 1, 3, 6])
def test_groups_are_a_power_of_two(size: int):
    with pytest.raises(ValueError, match="power of two"):
        index_bits(size)
