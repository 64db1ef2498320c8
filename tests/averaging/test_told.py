"""What the members of a group make of each other's words."""

from dataclasses import replace
from typing import Any

import pytest
from hivemind.averaging.allreduce import AveragingMode
from hivemind.p2p import PeerID
from hivemind.utils import MSGPackSerializer

from trainer.averaging.told import (
    MOST_WORDS,
    Told,
    Word,
    at_newest_step,
    is_client,
    is_enough,
    is_most,
    read_told,
    to_tell,
    with_lines,
)


def members(count: int, *seen: int, coordinator: bool = False) -> list[Told]:
    """So many, who tell `seen` in turn."""
    return [Told(3, b"", coordinator and not number, seen[number % len(seen)]) for number in range(count)]


def message(*said: object) -> bytes:
    return MSGPackSerializer.dumps([None, 1, MSGPackSerializer.dumps(list(said))])


@pytest.mark.parametrize(
    ("count", "seen", "coordinator", "most"),
    [
        (3, 5, False, True),
        (2, 5, True, False),
        (2, 4, False, False),
        (2, 4, True, True),  # the coordinator is in one of two halves only
        (2, 3, False, True),
        (2, 1, False, True),  # the others have not been seen yet
        (2, 0, False, True),  # as in a round that averages states
    ],
)
def test_most_of_the_peers_are_a_group(count: int, seen: int, coordinator: bool, most: bool):
    assert is_most(members(count, seen, coordinator=coordinator), gate=None) == most


def test_two_groups_of_a_swarm_are_never_both_most_of_it():
    for swarm in range(2, 40):
        for first in range(1, swarm):
            groups = members(first, swarm, coordinator=True), members(swarm - first, swarm)
            assert sum(is_most(group, gate=None) for group in groups) == 1


def test_one_members_word_does_not_make_a_group_most_of_the_swarm_or_none():
    assert is_most(members(3, 5, 5, 10**9), gate=None)
    assert not is_most([*members(2, 6), Told(3, b"", False, 1)], gate=None)


def test_those_who_rest_average_nothing_among_themselves():
    resting = [replace(one, trains=False) for one in members(2, 3)]
    assert is_most(resting, gate=None)
    assert not is_enough(resting, gate=None)
    assert is_enough([*resting, *members(1, 3)], gate=None)
    assert not is_enough(members(1, 3), gate=None)


@pytest.mark.parametrize(
    "said", [[3, b""], [3, b"", True, "many", None, 0.0, True, 0.0, 0.0, []], [None] * 4, "step", 7, [3]]
)
def test_what_is_no_message_is_one_of_a_peer_at_no_step(said: Any):
    gathered = MSGPackSerializer.dumps([None, 1, MSGPackSerializer.dumps(said)])
    assert read_told(gathered) == read_told(b"\xff") == Told(-1, b"", False)


def test_words_are_read_as_they_were_said():
    gathered = MSGPackSerializer.dumps(
        [None, 1, MSGPackSerializer.dumps(to_tell(3, b"pass", assists=True, seen=5, speed=20.0, trains=False))]
    )
    assert read_told(gathered) == Told(3, b"pass", True, 5, speed=20.0, trains=False)


def test_a_peer_tells_what_its_line_carries():
    gathered = MSGPackSerializer.dumps(
        [None, 1, MSGPackSerializer.dumps(to_tell(3, b"pass", assists=True, seen=5, speed=20.0, trains=False))]
    )
    assert read_told(with_lines(gathered, 123_456.7, 0.0)) == Told(
        3, b"pass", True, 5, 123_000.0, 0.0, 20.0, trains=False
    )
    for nonsense in (-1.0, float("nan"), float("inf"), 1e13):
        assert read_told(with_lines(gathered, nonsense, 1e6)) == Told(3, b"pass", True, 5, 0.0, 1e6, 20.0, trains=False)


def test_a_peer_tells_what_it_has_seen_of_others():
    gathered = MSGPackSerializer.dumps(
        [None, 1, MSGPackSerializer.dumps(to_tell(3, b"pass", assists=True, seen=5, speed=20.0, trains=False))]
    )
    words = [Word(b"slow", 2e5, True), Word(b"slower", 1e5, False)]
    assert read_told(with_lines(gathered, 0.0, 0.0, words)).late == tuple(words)
    assert read_told(with_lines(gathered, 0.0, 0.0, [Word(b"stopped", 0.0, True), *words])).late == tuple(words)
    assert len(read_told(with_lines(gathered, 0.0, 0.0, words * MOST_WORDS)).late) == MOST_WORDS


def test_a_number_in_place_of_bytes_makes_no_gigabytes():
    for said in (to_tell(3, 2**31), [*to_tell(3, b"")[:-1], [(2**31, 1e6, True)]]):  # type: ignore[arg-type]
        gathered = MSGPackSerializer.dumps([None, 1, MSGPackSerializer.dumps(said)])
        assert read_told(gathered) == Told(-1, b"", False)


@pytest.mark.parametrize("mode", AveragingMode)
def test_who_accepts_no_connections_says_so(mode: AveragingMode):
    assert is_client(MSGPackSerializer.dumps([None, mode.value, b""])) == (mode is AveragingMode.CLIENT)


def test_who_is_at_another_step_does_not_make_a_group_most_of_the_swarm():
    peers = [PeerID(bytes([number])) for number in range(3)]
    told = dict(zip(peers, [Told(3, b"", False, 4), Told(3, b"", False, 4), Told(2, b"", False, 5)], strict=True))
    members = at_newest_step(told)
    assert list(members) == peers[:2]
    assert not is_most(list(members.values()), gate=None)
