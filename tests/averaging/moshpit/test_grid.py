"""Where peers look for their groups on the grid."""

from collections import Counter

import pytest
from hivemind.utils import MSGPackSerializer

from trainer.averaging.moshpit.grid import Cell, grid_bits, other_bits, packed, place_of, read_cell
from trainer.averaging.told import Told, read_told, to_tell


def ids(count: int) -> list[bytes]:
    return [f"peer {number}".encode() for number in range(count)]


@pytest.mark.parametrize("size", [2, 4, 16])
def test_groups_have_about_their_size_and_never_a_single_peer(size: int):
    assert {grid_bits(peers, size) for peers in range(1, size + 1)} == {0}
    for peers in range(size + 1, 300):
        mean = peers / 2 ** grid_bits(peers, size)
        assert 2 <= mean < 4 or 2 <= mean <= size  # four are two groups, three are one


def test_nine_peers_in_groups_of_two_are_four_groups():
    assert grid_bits(9, 2) == 2


def test_bits_stay_while_few_peers_come_and_go():
    assert [grid_bits(peers, 8, 3) for peers in (60, 64, 70, 90, 100)] == [3, 3, 3, 3, 4]
    assert [grid_bits(peers, 8, 3) for peers in (45, 40, 8)] == [3, 3, 0]


@pytest.mark.parametrize("peers", [8, 12, 50, 90, 100])
def test_who_finds_nobody_tries_the_bits_that_the_others_may_have(peers: int):
    size = 8
    possible = {grid_bits(peers, size, before) for before in (None, *range(8))}
    for bits in possible:
        assert {bits, other_bits(peers, size, bits)} == possible


@pytest.mark.parametrize("peers", [3, 8, 9, 37])
def test_all_peers_come_to_the_same_places_which_are_as_full_as_each_other(peers: int):
    bits = grid_bits(peers, 2)
    places = [place_of(own, [one for one in ids(peers) if one != own], bits, 7, "gradients") for own in ids(peers)]
    there = Counter(place.key for place in places)
    assert set(there) == {f"{cell:0{bits}b}" for cell in range(2**bits)} if bits else {""}
    assert max(there.values()) - min(there.values()) <= 1
    assert all(place.members == there[place.key] and place.peers == peers for place in places)


def test_peers_meet_others_in_each_step_and_for_each_purpose():
    def keys(step: int, of: str) -> list[str]:
        return [place_of(own, ids(16), 3, step, of).key for own in ids(16)]

    assert keys(1, "gradients") == keys(1, "gradients")
    assert len({tuple(keys(step, of)) for step in range(4) for of in ("gradients", "state")}) == 8


def test_a_peer_that_only_some_know_of_moves_at_most_one_peer_at_each_cut():
    bits, known = 4, ids(64)
    for newcomer in (f"newcomer {number}".encode() for number in range(20)):
        before = [place_of(own, known, bits, 3, "state").key for own in known]
        after = [place_of(own, [*known, newcomer], bits, 3, "state").key for own in known]
        assert sum(one != other for one, other in zip(before, after, strict=True)) < 2**bits


@pytest.mark.parametrize("cell", [None, Cell(0, "", 15.0, 3), Cell(2, "0110", 4.5, None)])
def test_a_cell_is_read_from_what_a_peer_tells_its_group(cell: Cell | None):
    words = to_tell(3, b"pass", assists=True, seen=5, cell=packed(cell), speed=20.0)
    gathered = MSGPackSerializer.dumps([None, 1, MSGPackSerializer.dumps(words)])
    assert read_cell(gathered) == cell
    assert read_told(gathered) == Told(3, b"pass", True, 5, speed=20.0)
