"""Round numbers, days in a row, and what is reached between two standings."""

import datetime
from itertools import pairwise

import pytest

from swarm.milestones import ONE_DAY, Kind, Milestone, Standing, longest_streak, reached, round_below

DAY = datetime.date(2026, 2, 27)


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (0, 0),
        (99.9, 0),
        (100, 100),
        (199, 100),
        (200, 200),
        (499.5, 200),
        (999, 500),
        (1000, 1000),
        (7e12, 5 * 10**12),
        (float("nan"), 0),
        (float("inf"), 0),
    ],
)
def test_the_largest_round_number_that_was_reached(value: float, found: int) -> None:
    assert round_below(value, 100) == found


def on(days: list[int]) -> list[datetime.date]:
    return [DAY + number * ONE_DAY for number in days]


@pytest.mark.parametrize(
    ("days", "longest"), [([], 0), ([0], 1), ([0, 1, 2], 3), ([0, 2, 3, 5], 2), ([0, 1, 2, 9, 10], 3)]
)
def test_the_longest_streak_crosses_months_and_ends_at_a_gap(days: list[int], longest: int) -> None:
    assert longest_streak(on(days)) == longest


def test_a_streak_lives_until_the_end_of_the_next_day() -> None:
    standing = Standing()
    for day in on([0, 1]):
        standing = standing.after(8, 1.0, day, gave=True)
    assert [standing.streak(day) for day in on([1, 2, 3])] == [2, 2, 0]
    assert standing.after(0, 1.0, *on([2]), gave=False).days == 2, "to be present is not to give"
    assert standing.after(8, 1.0, *on([1]), gave=True).days == 2, "a day counts once"
    assert standing.after(8, 1.0, *on([0]), gave=True).last_day == on([1])[0], "a clock that was put back adds nothing"
    assert standing.after(8, 1.0, *on([3]), gave=True).days == 1
    assert Standing().streak(DAY) == 0


def test_of_each_kind_the_last_milestone_is_reached_once() -> None:
    steps = [Standing(), Standing(99), Standing(260, 9.9), Standing(260, 10.0, 3, DAY), Standing(900, 30.0, 4, DAY)]
    found = [reached(before, after) for before, after in pairwise(steps)]
    assert found == [
        [],
        [Milestone(Kind.SAMPLES, 200)],
        [Milestone(Kind.HOURS, 10), Milestone(Kind.DAYS, 3)],
        [Milestone(Kind.SAMPLES, 500), Milestone(Kind.HOURS, 20)],
    ]


def test_two_accounts_of_one_person_are_joined_to_what_is_known_of_both() -> None:
    ours, theirs = Standing(500, 2.0, 7, DAY), Standing(400, 3.0, 6, DAY - ONE_DAY)
    assert ours.joined(theirs) == theirs.joined(ours) == Standing(500, 3.0, 7, DAY)
    assert ours.joined(Standing()) == ours and Standing().joined(Standing()) == Standing()
