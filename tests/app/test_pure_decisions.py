"""Decisions without effects: what is due, what an organizer is warned of, who is in a group."""

from pathlib import Path

import pytest
from hivemind.averaging.group_info import GroupInfo
from hivemind.p2p import PeerID
from hivemind.utils import MSGPackSerializer

from coordinator.bookkeeping import is_due
from coordinator.coordinator import warnings_about
from swarm.run_file import parse_run
from trainer.averaging.claims import believed_samples, believed_step, is_beside, is_plausible, newest_believed
from trainer.averaging.told import narrowed


@pytest.mark.parametrize(
    ("step", "last", "due"),
    [
        (0, -1, True),  # a run that begins
        (3, -1, True),  # never done, whatever the step
        (0, 0, False),
        (9, 0, False),
        (10, 0, True),
        (11, 0, True),  # the multiple itself was passed between two looks
        (11, 10, False),
        (25, 11, True),
        (99, 90, False),
        (100, 90, True),  # the run's end
        (95, 100, False),  # the swarm has gone back
    ],
)
def test_something_is_due_when_a_multiple_of_ten_was_reached(step: int, last: int, due: bool):
    assert is_due(step, last, every=10, total=100) is due


def test_the_last_step_is_due_even_if_it_is_no_multiple():
    assert is_due(97, 90, every=10, total=97)
    assert not is_due(97, 97, every=10, total=97)


@pytest.mark.parametrize(
    ("host", "url", "source", "words"),
    [
        ("127.0.0.1", "http://127.0.0.1:8080", {"path": "text.txt"}, []),  # a run of this machine alone, as the demo's
        ("localhost", "http://localhost:8080", {"path": "text.txt"}, []),
        ("0.0.0.0", "https://run.example.org", {"hub": "some/text"}, []),
        ("0.0.0.0", "http://127.0.0.1:8080", {"hub": "some/text"}, ["access.url"]),
        ("::", "http://[::1]:8080", {"hub": "some/text"}, ["access.url"]),
        ("0.0.0.0", "http://127.0.0.1:8080", {"path": "text.txt"}, ["access.url", "text.txt"]),
        ("127.0.0.1", "https://run.example.org", {"path": "text.txt"}, ["text.txt"]),  # behind a reverse proxy
    ],
)
def test_an_organizer_is_warned_of_what_keeps_others_out(host: str, url: str, source: dict[str, str], words: list[str]):
    content = {"name": "test", "data": {"train": [source]}, "access": {"open": True, "host": host}}
    warnings = warnings_about(parse_run(content, Path("run.yaml")), url)
    assert [word in warning for word, warning in zip(words, warnings, strict=True)] == [True] * len(words)


def test_only_members_stay_in_a_group():
    peers = tuple(PeerID(bytes([number]) * 34) for number in range(4))
    group = GroupInfo(b"group", peers, tuple(gathered(step) for step in (7, 6, 7, 8)))
    kept = narrowed(group, [peers[0], peers[2]])
    assert kept.group_id == b"group"
    assert kept.peer_ids == (peers[0], peers[2])
    assert kept.gathered == (group.gathered[0], group.gathered[2])
    assert narrowed(group, []).peer_ids == ()


@pytest.mark.parametrize(
    ("claims", "believed"),
    [
        ([500], 500),  # the only one there
        ([7, 7, 7], 7),
        ([8, 7, 7], 8),  # one has just gone on
        ([10**6, 7, 7], 7),
        ([10**6, 10**6 - 5, 7, 7, 6], 7),
        ([10**6, 7, 3], 3),  # nobody is near to anybody: the lowest does no harm
    ],
)
def test_a_step_that_nobody_else_is_near_to_is_not_believed(claims: list[int], believed: int):
    assert believed_step(claims) == believed
    assert believed_step(claims[::-1]) == believed


def test_an_impossible_speed_is_not_counted():
    assert is_plausible(7, 5000.0, 0.0, believed=7)
    assert not is_plausible(8, 5000.0, 0.0, believed=7)
    assert not is_plausible(7, 1e9, 0.0, believed=7)
    assert not is_plausible(7, float("nan"), 0.0, believed=7)
    assert not any(is_plausible(7, 5000.0, time, believed=7) for time in (float("nan"), float("-inf")))


@pytest.mark.parametrize(
    ("claims", "own", "newest"),
    [
        ([50, 0], 50, 50),  # a newcomer, or a liar; the coordinator at 50 is believed all the same
        ([51, 0], 50, 51),  # it has taken the step that we have missed
        ([52, 0], 50, 50),  # one word against another: wait for a second
        ([51, 51, 0], 50, 51),
        ([10**6], 50, 10**6),  # it may be the only one that holds the state
        ([], 50, 0),
    ],
)
def test_a_claim_far_behind_makes_nobody_else_a_liar(claims: list[int], own: int, newest: int):
    assert newest_believed(claims, own) == newest


def test_a_leader_takes_along_only_those_who_are_beside_it():
    assert [step for step in range(10) if is_beside(step, own=5)] == [4, 5, 6]


def test_samples_that_nobody_can_have_computed_do_not_count():
    assert believed_samples(10**9, 1.0, step_seconds=0.0) < 1000
    assert believed_samples(10**9, 1.0, step_seconds=600.0) < 10_000
    assert believed_samples(10**9, 1.0, step_seconds=float("inf")) == 10**9  # we came when the step was under way


@pytest.mark.parametrize("speed", [0.0, 0.5, 100.0])
@pytest.mark.parametrize("seconds", [0.0, 5.0, 3600.0])
def test_an_honest_peer_is_believed(speed: float, seconds: float):
    claim = int(2 * speed * (seconds + 10.0))  # twice as fast as it says, and since before we heard of the step
    assert believed_samples(claim, speed, seconds) == claim


def gathered(step: int) -> bytes:
    """What a peer tells its group, as hivemind packs it: bandwidth, mode, and the data of the round."""
    return bytes(MSGPackSerializer.dumps([1.0, 0, MSGPackSerializer.dumps(step)]))
