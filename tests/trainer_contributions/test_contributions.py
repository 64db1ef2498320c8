"""Samples count once the round they went into has worked."""

import itertools
from collections import Counter
from dataclasses import replace

from swarm.records import CONTRIBUTIONS_KEPT, UNHEARD_TOLD
from trainer.averaging import RoundReport
from trainer.contributions import HEARD_ROUNDS, HEARD_SECONDS, UNHEARD_KEPT, Brought, Contributions

STEP_SECONDS = 10.0


def ended(step: int, *, number: int | None = None, peers: int = 2, problem: str | None = None) -> RoundReport:
    """The end of a round; unless they fail, rounds have the numbers of their steps here."""
    return RoundReport(
        number=step if number is None else number, step=step, samples=0, peers=peers, seconds=1.0, problem=problem
    )


def test_nothing_counts_before_its_round_has_ended() -> None:
    books = Contributions()
    books.computed(16, 2000, 9.0)
    books.round_began(0)
    assert (books.samples, books.tokens, books.steps, books.loss) == (0, 0, 0, None)
    assert "nothing was counted" in books.thanks()


def test_a_round_that_worked_counts_all_its_batches_with_their_mean_loss_by_sample() -> None:
    books = Contributions()
    books.computed(16, 2000, 9.0)
    books.computed(48, 6000, 5.0)
    books.round_began(7)
    books.round_ended(ended(7))
    assert list(books.recent) == [Brought(step=7, samples=64, tokens=8000, loss=6.0)]
    assert (books.samples, books.tokens, books.steps, books.loss) == (64, 8000, 1, 6.0)
    assert (books.rounds, books.failures) == (1, 0)
    assert "64 samples (8,000 tokens) to 1 global step." in books.thanks()


def test_a_round_that_failed_loses_its_samples_and_no_others() -> None:
    books = Contributions()
    books.computed(16, 2000, 9.0)
    books.round_began(0)
    books.computed(8, 1000, 4.0)
    books.round_ended(ended(0, problem="nobody answered"))
    assert (books.samples, books.rounds, books.failures) == (0, 1, 1)
    books.round_began(1)
    books.round_ended(ended(0, number=1))
    assert [(one.step, one.samples) for one in books.recent] == [(0, 8)]
    assert (books.rounds, books.failures) == (2, 1)


def test_a_round_that_ends_after_the_next_one_began_keeps_its_own_samples() -> None:
    books = Contributions()
    for step in range(3):
        books.computed(step + 1, 10, float(step))
        books.round_began(step)
    for step in range(3):
        books.round_ended(ended(step))
    assert [(one.step, one.samples, one.loss) for one in books.recent] == [(0, 1, 0.0), (1, 2, 1.0), (2, 3, 2.0)]


def test_what_was_dropped_does_not_count_but_what_is_on_its_way_does() -> None:
    books = Contributions()
    books.computed(16, 2000, 9.0)
    books.round_began(0)
    books.computed(32, 4000, 8.0)
    books.dropped()
    books.computed(4, 500, 7.0)
    books.round_began(1)
    books.round_ended(ended(0))
    books.round_ended(ended(1))
    assert [(one.step, one.samples, one.loss) for one in books.recent] == [(0, 16, 9.0), (1, 4, 7.0)]


def test_a_round_without_samples_of_ours_is_no_contribution() -> None:
    books = Contributions()
    books.computed(16, 2000, 9.0)
    books.dropped()
    books.round_began(3)
    books.round_ended(ended(3))
    assert (books.samples, books.steps, books.rounds) == (0, 0, 1)
    assert not books.recent
    assert books.loss is None


def test_a_step_alone_counts_its_samples_but_is_no_round() -> None:
    books = Contributions()
    books.computed(16, 2000, 9.0)
    books.round_began(0)
    books.round_ended(ended(0, peers=1))
    assert (books.samples, books.steps, books.rounds) == (16, 1, 0)


def test_only_the_newest_steps_are_kept_one_by_one_but_all_are_counted() -> None:
    books = Contributions()
    for step in range(CONTRIBUTIONS_KEPT + 5):
        books.computed(2, 10, 1.0)
        books.round_began(step)
        books.round_ended(ended(step))
    assert [one.step for one in books.recent] == list(range(5, CONTRIBUTIONS_KEPT + 5))
    assert books.samples == 2 * (CONTRIBUTIONS_KEPT + 5)
    assert f"{CONTRIBUTIONS_KEPT + 5} global steps" in books.thanks()


def test_a_round_that_began_while_nothing_was_counted_is_no_contribution() -> None:
    books = Contributions()
    books.round_ended(ended(0))
    assert (books.samples, books.rounds) == (0, 1)


def contribute(books: Contributions, steps: range, *, assisted: bool) -> None:
    for step in steps:
        books.computed(1, 10, 5.0)
        books.round_began(step)
        books.round_ended(replace(ended(step), assisted=assisted, weights={"me": 1.0, "you": 2.0}))


def books_by_a_clock() -> Contributions:
    """Whoever looks at its clock finds that another global step's time has passed."""
    return Contributions(clock=itertools.count(step=STEP_SECONDS).__next__)


def told(books: Contributions) -> list[int]:
    return [one.step for one in books.to_tell()]


def test_while_the_coordinator_is_there_only_the_last_steps_are_told_again() -> None:
    books = books_by_a_clock()
    contribute(books, range(3 * CONTRIBUTIONS_KEPT), assisted=True)
    assert told(books) == list(range(2 * CONTRIBUTIONS_KEPT, 3 * CONTRIBUTIONS_KEPT))
    assert not books.unheard
    assert not any(one.seen for one in books.recent)


def test_while_it_is_away_all_steps_are_told_until_it_has_been_back_for_a_while() -> None:
    books = books_by_a_clock()
    contribute(books, range(20), assisted=True)
    contribute(books, range(20, 100), assisted=False)
    assert told(books)[-80:] == list(range(20, 100))
    assert books.recent[-1].seen == {"me": 1.0, "you": 2.0}
    contribute(books, range(100, 100 + HEARD_ROUNDS), assisted=True)
    assert {20, 99} <= set(told(books))
    contribute(books, range(200, 201), assisted=True)
    assert not books.unheard


def test_however_fast_the_steps_are_the_coordinator_has_the_time_to_read_them() -> None:
    books = Contributions(clock=itertools.count(step=1.0).__next__)
    contribute(books, range(100), assisted=False)
    contribute(books, range(100, 100 + int(HEARD_SECONDS)), assisted=True)
    assert told(books) == list(range(175 - UNHEARD_TOLD - CONTRIBUTIONS_KEPT, 175))
    contribute(books, range(200, 202), assisted=True)
    contribute(books, range(300, 300 + int(HEARD_SECONDS)), assisted=True)
    assert not books.unheard


def test_after_a_long_absence_all_is_told_in_portions_the_newest_first() -> None:
    away = 3000
    books = books_by_a_clock()
    contribute(books, range(away), assisted=False)
    assert told(books) == list(range(away - UNHEARD_TOLD - CONTRIBUTIONS_KEPT, away))
    rounds_heard: Counter[int] = Counter()
    newest = away
    while books.unheard:
        contribute(books, range(newest, newest + 1), assisted=True)
        rounds_heard.update(told(books))
        newest += 1
        assert len(told(books)) <= UNHEARD_TOLD + CONTRIBUTIONS_KEPT  # a record takes no more
    assert min(rounds_heard[step] for step in range(away)) >= HEARD_ROUNDS
    assert newest - away < away / 12  # and it is soon done


def test_a_round_without_the_coordinator_does_not_count_as_heard() -> None:
    books = books_by_a_clock()
    contribute(books, range(500), assisted=False)
    for start in range(1000, 1400, 4):
        contribute(books, range(start, start + 3), assisted=True)
        contribute(books, range(start + 3, start + 4), assisted=False)
    assert len(books.unheard) == 500 + 400 - CONTRIBUTIONS_KEPT


def test_of_the_longest_absence_the_newest_steps_are_kept() -> None:
    books = Contributions()
    contribute(books, range(UNHEARD_KEPT + 100), assisted=False)
    assert [one.step for one in (*books.unheard, *books.recent)] == list(
        range(100 - CONTRIBUTIONS_KEPT, UNHEARD_KEPT + 100)
    )
