"""What a volunteer is told whose peer takes over the others' state."""

import pytest

from trainer.work import describe_catch_up


@pytest.mark.parametrize("times", [1, 2])
def test_whoever_was_left_behind_now_and_then_is_told_where_it_is(times: int):
    said = describe_catch_up(1233, 1234, times, took=True)
    assert said == "Others were ahead: took over the state of global step 1,234."


def test_whoever_never_gets_into_a_round_is_told_that_it_helps_nobody():
    said = describe_catch_up(1233, 1240, 3, took=True)
    assert said.startswith("Others were ahead: took over the state of global step 1,240. 3 times in a row")
    assert "nothing that you compute counts" in said
    assert "\n" not in said


def test_a_state_that_nobody_shows_is_no_fault_of_the_line():
    assert "nobody has a newer state" in describe_catch_up(7, 7, 5, took=False)


def test_whoever_had_other_parameters_is_told_so():
    said = describe_catch_up(7, 7, 1, took=True)
    assert said == "This peer's parameters were not those of the others: took over the state of global step 7."
