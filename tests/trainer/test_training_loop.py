"""Decisions of the training loop: whether a leaving peer waits for a round, and what it says that it does."""

from dataclasses import replace

from averaging.shell.shell import Progress
from trainer.console.view import status_of
from trainer.training_loop import may_begin_within, told_of_lateness


def test_a_peer_that_has_to_leave_stays_if_the_round_may_begin_in_time() -> None:
    assert may_begin_within(5.0, gathered=750, target=1000, since=15.0)
    assert not may_begin_within(4.9, gathered=750, target=1000, since=15.0)
    assert not may_begin_within(5.0, gathered=0, target=1000, since=15.0)


def test_what_a_peer_says_that_it_does() -> None:
    training = Progress(gathered=10, own=5, peers=3, in_round=False, is_behind=False)
    assert status_of(training, has_state=True) == "training"
    assert status_of(replace(training, peers=1), has_state=True) == "training alone until others join"
    assert status_of(replace(training, in_round=True), has_state=True) == "averaging"
    assert status_of(replace(training, rests=True), has_state=True) == "following the others"
    assert status_of(replace(training, rests=True, share=0.5), has_state=True) == "averaging for the others"
    assert status_of(replace(training, is_behind=True), has_state=True) == "catching up with the others"
    assert status_of(training, has_state=False) == "loading the state of the run"
    assert status_of(replace(training, peers=1), has_state=False) == "waiting for the others"


def test_a_volunteer_is_told_once_that_gradients_come_too_late_and_once_that_they_do_not_any_more() -> None:
    told = [
        told_of_lateness(late, was_told=was) for late, was in ((2, False), (3, False), (4, True), (1, True), (0, True))
    ]
    assert told[0] is told[2] is told[3] is None
    assert told[1] is not None and told[1].startswith("In 3 of the last 5 global steps your results arrived too late")
    assert told[4] == "Your results arrive in time again."
    assert told_of_lateness(0, was_told=False) is None
