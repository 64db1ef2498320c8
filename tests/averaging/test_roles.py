"""Who computes gradients next, as the members of a group decide it, and how long that holds."""

import pytest

from trainer.averaging import roles
from trainer.averaging.roles import Assigned, Role, SwarmStep, assigned
from trainer.averaging.told import Told

MEGABIT = 125_000.0  # bytes
ELEMENTS, WIRE = 12_000_000, 12e6
SMALL = SwarmStep(samples=200.0, overlap=True)
LARGE = SwarmStep(samples=20_000.0, overlap=True)


def member(speed: float, upload: float, *, trains: bool = True, assists: bool = False) -> Told:
    """A peer of so many samples and Mbit (up; five times as many down) a second."""
    return Told(3, b"", assists, 0, upload * MEGABIT, 5 * upload * MEGABIT, speed, trains)


def decided(group: list[Told], step: SwarmStep) -> list[bool]:
    """Who trains next."""
    given = [assigned(group, [False] * len(group), own, step, ELEMENTS, WIRE) for own in range(len(group))]
    assert all(one is not None for one in given)
    return [one is None or one.trains for one in given]


GPU, HOST, LAPTOP = member(100.0, 20.0), member(1.0, 200.0), member(10.0, 2.0)


def test_a_line_that_all_would_wait_for_sends_no_gradients():
    assert decided([GPU, HOST, LAPTOP], SMALL) == [True, True, False]
    news = assigned([GPU, HOST, LAPTOP], [False] * 3, 2, SMALL, ELEMENTS, WIRE)
    assert news is not None
    assert "too slow (2 Mbit/s up)" in news.news


def test_with_a_large_batch_everybody_computes():
    assert decided([GPU, HOST, LAPTOP], LARGE) == [True, True, True]


def test_a_role_is_kept_for_a_small_gain_and_left_for_a_great_one():
    for speed, trains in ((10.0, False), (30.0, True)):
        resting = member(speed, 2.0, trains=False)
        assert decided([GPU, HOST, resting], LARGE) == [True, True, trains]


def test_the_coordinator_never_trains_and_a_newcomer_may():
    coordinator, newcomer = member(0.0, 200.0, trains=False, assists=True), member(0.0, 20.0)
    assert decided([GPU, GPU, coordinator, newcomer], SMALL) == [True, True, False, True]


def test_nobody_is_told_to_rest_while_too_little_is_known():
    unknown_lines = [Told(3, b"", False, 0, 0.0, 0.0, 10.0)] * 3
    assert assigned(unknown_lines, [False] * 3, 0, SMALL, ELEMENTS, WIRE) is None
    unknown_speeds = [member(0.0, 20.0)] * 3
    assert assigned(unknown_speeds, [False] * 3, 0, SMALL, ELEMENTS, WIRE) is None


REST, WORK = Assigned(trains=False, seconds=60.0, news="rest"), Assigned(trains=True, seconds=60.0, news="work")


def test_a_role_is_news_only_when_it_changes():
    role = Role()
    assert role.trains(0.0)
    assert [role.take(given, 1.0) for given in (None, WORK, REST, REST, WORK, WORK, REST, None)] == [
        *(None, None, "rest", None, "work", None, "rest", None)
    ]
    assert role.trains(1.0)


def test_whoever_rested_in_vain_follows_no_plan_for_a_while():
    role = Role()
    assert role.take(REST, 0.0) == "rest"
    assert not role.trains(59.0)
    assert role.take(REST, 59.0) is None
    assert not role.trains(118.0)
    assert role.trains(119.0)
    assert role.take(REST, 120.0) is None
    assert role.trains(120.0)
    assert role.take(REST, 119.0 + roles.IN_VAIN) == "rest"


def test_it_holds_for_some_global_steps():
    given = assigned([GPU, HOST, LAPTOP], [False] * 3, 2, SwarmStep(400.0, overlap=True), ELEMENTS, WIRE)
    assert given is not None
    assert given.seconds == roles.LASTS_LEAST
    slow = assigned([GPU, HOST, LAPTOP], [False] * 3, 2, SwarmStep(4e5, overlap=True), ELEMENTS, WIRE)
    assert slow is not None
    assert slow.seconds == roles.LASTS_MOST
    usual = assigned([GPU, HOST, LAPTOP], [False] * 3, 2, SwarmStep(1e4, overlap=True), ELEMENTS, WIRE)
    assert usual is not None
    assert usual.seconds == pytest.approx(3 * 1e4 / 111.0)


def test_whoever_says_that_it_computes_more_than_all_sends_nobody_to_rest():
    honest = [member(20.0, 20.0)] * 8
    assert decided([*honest, member(1e6, 1000.0)], SwarmStep(2_000.0, overlap=True)) == [True] * 9
