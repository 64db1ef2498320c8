"""What the benchmark of a warm start reads from two curves."""

import pytest

from benchmarks.learning.learner import Curve, Point
from benchmarks.learning.warm_start import LOSSES, Reached, compare

FALLING = Curve((Point(0, 9.0), Point(100, 7.0), Point(200, 7.2), Point(300, 6.2)), optimizer_seconds=0.0)


def test_samples_are_those_of_the_first_time_between_two_evaluations():
    assert FALLING.samples_to(8.0) == pytest.approx(50)
    assert FALLING.samples_to(7.0) == pytest.approx(100)
    assert FALLING.samples_to(6.7) == pytest.approx(250)
    assert FALLING.samples_to(6.0) is None
    assert FALLING.samples_to(9.5) is None  # it began below


def test_losses_that_one_did_not_reach_are_left_out():
    warm = Curve((Point(0, 8.0), Point(100, 6.0)), optimizer_seconds=0.0)
    found = compare(FALLING, warm)
    assert [one.loss for one in found] == [loss for loss in LOSSES if loss >= 6.2]
    assert found[0] == Reached(7.0, pytest.approx(100), pytest.approx(50))  # type: ignore[arg-type]
    assert found[0].samples_ratio == pytest.approx(0.5)
