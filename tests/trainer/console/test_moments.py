"""What a volunteer is told of once."""

import datetime

from swarm.access.notices import BestCheckpoint
from swarm.milestones import Standing
from trainer.console.moments import Milestones, best_line

NOON = 1_790_000_000 // 86400 * 86400 + 43200.0
TODAY = datetime.datetime.fromtimestamp(NOON, datetime.timezone.utc).date()
YESTERDAY = TODAY - datetime.timedelta(days=1)


class Clock:
    now = NOON

    def __call__(self) -> float:
        return self.now


def test_a_milestone_is_told_when_it_is_reached_and_once() -> None:
    milestones = Milestones(Clock())
    milestones.learn(Standing(999_000, 5.0, 1, TODAY))
    told = [line for samples in (0, 400, 999, 1000, 1300, 2000) for line in milestones.new_lines(samples)]
    assert told == ["That was your 1,000,000th sample here. Thank you!"]


def test_what_was_reached_before_is_not_told() -> None:
    milestones = Milestones(Clock())
    assert milestones.new_lines(10) == []
    milestones.learn(Standing(70_000, 120.0, 8, TODAY))
    assert milestones.new_lines(20) == milestones.new_lines(30) == []


def test_days_in_a_row_begin_with_the_first_sample_of_a_day() -> None:
    clock = Clock()
    milestones = Milestones(clock)
    milestones.learn(Standing(0, 0.0, 6, YESTERDAY))
    assert milestones.new_lines(0) == milestones.new_lines(0) == []
    assert milestones.new_lines(8) == ["Day 7 in a row here. Thank you!"]
    clock.now += 86400
    assert milestones.new_lines(16) == ["Your machines have given 20 hours to this run. Thank you!"]


def test_the_coordinators_word_adds_what_other_machines_did_and_takes_nothing_back() -> None:
    clock = Clock()
    milestones = Milestones(clock)
    milestones.learn(Standing(900, 0.0, 6, YESTERDAY))
    milestones.new_lines(0)
    assert milestones.new_lines(60) == ["Day 7 in a row here. Thank you!"]
    milestones.learn(Standing(940, 0.0, 6, YESTERDAY))  # its ledger is behind
    assert milestones.new_lines(60) == []
    milestones.learn(Standing(1010, 0.0, 7, TODAY))
    assert milestones.new_lines(60) == ["That was your 1,000th sample here. Thank you!"]
    assert milestones.new_lines(60) == []


def test_a_coordinator_that_does_not_know_leaves_all_as_it_is() -> None:
    milestones = Milestones(Clock())
    milestones.learn(None)
    assert milestones.new_lines(0) == milestones.new_lines(10_000) == []


def test_a_best_checkpoint_is_one_line() -> None:
    best = BestCheckpoint(12_000, 2.314, 1.2, "The [river] flows to the sea.")
    assert best_line(best) == (
        "Best checkpoint so far: global step 12,000, loss 2.31 on text kept out of training, 1.20 lower than guessing "
        "from word frequencies alone. "
        "It fills in: The [river] flows to the sea."
    )
    line = best_line(BestCheckpoint(5, 9.0))
    assert line == "Best checkpoint so far: global step 5, loss 9.00 on text kept out of training."
