"""What the benchmark of a warm start reads from two curves."""

import pytest

from benchmarks.warm_start import LOSSES, Point, Reached, compare, samples_to

FALLING = [Point(0, 9.0), Point(100, 7.0), Point(200, 7.2), Point(300, 6.2)]


def test_samples_are_those_of_the_first_time_between_two_evaluations():
    assert samples_to(8.0, FALLING) == pytest.approx(50)
    assert samples_to(7.0, FALLING) == pytest.approx(100)
    assert samples_to(6.7, FALLING) == pytest.approx(250)
    assert samples_to(6.0, FALLING) is None
    assert samples_to(9.5, FALLING) is None  # it began below


def test_losses_that_one_did_not_reach_are_left_out():
    warm = [Point(0, 8.0), Point(100, 6.0)]
    found = compare(FALLING, warm)
    assert [one.loss for one in found] == [loss for loss in LOSSES if loss >= 6.2]
    assert found[0] == Reached(7.0, pytest.approx(100), pytest.approx(50))  # type: ignore[arg-type]
    assert found[0].samples_ratio == pytest.approx(0.5)
