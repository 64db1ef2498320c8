"""For how long one peer waits for another, by what it saw of it."""

import itertools

from averaging.protocol.rounds.reliability import (
    ALLOWED,
    ALONE,
    COMES_BACK,
    MOST,
    MOST_DOUBLINGS,
    SLACK,
    TRUSTED,
    Patience,
    explained,
)


def until_trusted(patience: Patience, session: str, now: float) -> float:
    """Seconds, whole ones."""
    return next(float(after) for after in itertools.count() if patience.trusts(session, now + after))


def test_one_bad_round_changes_nothing() -> None:
    patience = Patience()
    assert patience.left("asha.0", 0.0) == MOST
    patience.waited("asha.0", MOST - TRUSTED, 0.0, since=0.0)
    assert patience.trusts("asha.0", 0.0)
    patience.waited("bela.0", -1.0, 0.0, since=0.0)
    assert patience.left("bela.0", 0.0) == MOST


def test_nobody_is_charged_with_a_round_in_which_nobody_was_heard_for_a_while() -> None:
    patience = Patience()
    patience.heard(0.0)
    patience.waited("asha.0", 3.0, ALONE, since=0.0)  # nothing has come since
    patience.heard(ALONE)
    patience.waited("asha.0", 3.0, ALONE + 1.0, since=0.0)
    for seconds in range(1, 100):  # however long that round lasts
        patience.heard(ALONE + seconds)
    now = ALONE + 100.0
    patience.waited("asha.0", 3.0, now, since=ALONE - 1.0)
    assert patience.left("asha.0", now) == MOST
    patience.charge("asha.0", 1.0, now)
    assert patience.left("asha.0", now) == MOST - 1.0
    patience.waited("bela.0", 3.0, now, since=ALONE)  # of the next round
    assert patience.left("bela.0", now) == MOST - 3.0


def test_one_that_is_late_again_is_not_waited_for_until_its_seconds_are_back_whatever_session_it_begins() -> None:
    patience = Patience()
    for _ in range(2):
        patience.waited("asha.0", TRUSTED / 2 + 0.5, 0.0, since=0.0)
    assert patience.left("asha.0", 0.0) == patience.left("asha.1", 0.0) == 0.0
    assert patience.left("bela.0", 0.0) == MOST
    assert until_trusted(patience, "asha.2", 0.0) == 1.0 / COMES_BACK


def test_it_is_trusted_again_later_each_time_and_in_the_end_as_if_nothing_had_been() -> None:
    patience, now, waits = Patience(), 0.0, []
    for _ in range(MOST_DOUBLINGS + 3):
        patience.waited("asha.0", MOST + MOST, now, since=now)  # more than it has does not make it worse
        waits.append(until_trusted(patience, "asha.0", now))
        now += waits[-1]
    longest = (MOST + TRUSTED) / COMES_BACK
    assert waits == [longest * 2 ** min(number, MOST_DOUBLINGS) for number in range(len(waits))]
    now += 2**MOST_DOUBLINGS * MOST / COMES_BACK
    patience.waited("bela.0", 1.0, now, since=now)  # accounts that are full are forgotten
    patience.waited("asha.0", 2 * MOST, now, since=now)
    assert until_trusted(patience, "asha.0", now) == longest


def test_whatever_it_does_it_takes_a_twentieth_of_the_time_of_others_at_most() -> None:
    for seconds in (0.3, 2.0, 3.0, 5.0):
        patience, now, taken = Patience(), 0.0, 0.0
        while now < 10_000.0:
            wait = min(seconds, patience.left("eve.0", now))
            patience.waited("eve.0", wait, now, since=now)
            taken += wait
            now += 1.0 + wait
        assert taken <= MOST + COMES_BACK * now


def test_lines_explain_what_a_plan_says_of_them_and_some_more() -> None:
    assert explained(10.0, otherwise=90.0) == SLACK * 10.0 + ALLOWED
    assert explained(0.0, otherwise=90.0) == explained(1e5, otherwise=90.0) == 90.0
