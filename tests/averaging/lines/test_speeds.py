"""What a line carries: words first, then measurements, of which one may be wrong."""

import math

import pytest

from trainer.averaging.lines.speeds import FASTEST, Direction, Line, ease

MEGABYTE = 1e6


def test_nothing_is_known_at_first_but_the_cap():
    assert Direction().speed is None
    assert Direction(cap=5.0).speed == 5.0


def test_an_overstated_line_is_corrected_after_one_round():
    line = Direction().told(100 * MEGABYTE)
    assert line.speed == 100 * MEGABYTE
    line = line.observed(20 * MEGABYTE, seconds=10, busy=True)
    assert line.speed == 2 * MEGABYTE


def test_who_overstates_again_is_still_known_by_what_was_measured():
    line = Direction(100.0).observed(100, 50, busy=True).told(1000.0)
    assert line.speed == 2.0


def test_one_bad_round_changes_nothing():
    line = Direction()
    for seconds in (10, 10, 10, 200, 10):
        line = line.observed(20 * MEGABYTE, seconds, busy=True)
        assert line.speed == 2 * MEGABYTE


def test_one_bad_round_changes_nothing_even_when_it_is_the_second():
    assert Direction(5.0).observed(10, 5, busy=True).observed(10, 500, busy=True).speed == 2.0


def test_one_round_that_looks_too_fast_changes_nothing_either():
    line = Direction().observed(10, 5, busy=True).observed(10, 5, busy=True).observed(1000, 5, busy=True)
    assert line.speed == 2.0


def test_a_line_that_has_become_slower_is_known_after_two_rounds():
    line = Direction()
    for _ in range(3):
        line = line.observed(100, 10, busy=True)
    line = line.observed(20, 10, busy=True)
    assert line.speed == 10
    assert line.observed(20, 10, busy=True).speed == 2


def test_a_line_that_had_to_wait_for_others_is_not_thought_slower():
    line = Direction(50.0)
    assert line.observed(100, 10, busy=False).speed == 50.0
    assert line.observed(1000, 10, busy=False).speed == 100.0  # but it has shown that it carries more


def test_a_line_once_slow_is_found_out_when_it_carries_more():
    line = Direction().observed(20, 10, busy=True).observed(200, 10, busy=False)
    assert line.speed == 20
    assert line.observed(30, 10, busy=True).speed == 3  # until it is busy again and carries less


def test_a_volunteers_cap_is_never_exceeded():
    line = Direction(cap=3.0).told(100.0)
    assert line.speed == 3.0
    assert line.observed(1000, 10, busy=True).speed == 3.0
    assert line.observed(10, 10, busy=True).speed == 1.0


@pytest.mark.parametrize("carried, seconds", [(10, 0.0), (10, 0.01), (0, 5), (-1, 5), (math.inf, 5), (math.nan, 5)])
def test_what_measures_nothing_changes_nothing(carried: float, seconds: float):
    line = Direction(7.0)
    assert line.observed(carried, seconds, busy=True) == line


@pytest.mark.parametrize("claim", [0.0, -1.0, math.inf, math.nan, 1e15])
def test_what_is_no_speed_is_refused(claim: float):
    with pytest.raises(ValueError, match="no speed"):
        Direction().told(claim)


def test_directions_are_measured_apart():
    line = Line(upload=Direction(1.0).observed(20, 10, busy=True), download=Direction(9.0))
    assert (line.upload.speed, line.download.speed) == (2.0, 9.0)


def test_newcomers_ask_fat_lines_and_share_those_that_are_alike():
    assert 0.0 == ease(0.0) < ease(2.5e5) < ease(2.5e7) < ease(FASTEST) < 1.0
    assert ease(2.2e7) == ease(3.3e7)
