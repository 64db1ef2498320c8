"""Decisions of the training loop: whether a leaving peer waits for a round, and what it says that it does."""

from dataclasses import replace

from averaging.shell.shell import Progress
from trainer.console.view import status_of
from trainer.training_loop import may_begin_within


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
