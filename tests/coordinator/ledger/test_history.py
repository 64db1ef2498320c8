"""The run over time, in SQLite and in PostgreSQL."""

import datetime
import math
import time
from collections.abc import Callable
from unittest.mock import Mock

import pytest

from coordinator.http.routes.people import today
from coordinator.ledger.answers import FilledSentence
from coordinator.ledger.history import MinuteRecorder, spread
from coordinator.ledger.ingest import SessionReport
from coordinator.ledger.ledger import Ledger
from coordinator.ledger.storage.database import LedgerError
from swarm import clock

Report = Callable[..., SessionReport]


def fills(word: str = "sea", probability: float = 0.5) -> list[FilledSentence]:
    return [FilledSentence.of("To the [MASK].", ((word, probability), ("river", 0.25)))]


def test_a_new_ledger_has_no_history(ledger: Ledger) -> None:
    history = ledger.history
    assert not any([history.minutes(50), history.steps(50), history.fills(50), history.evaluations(50)])
    assert history.started() is history.minute_before(0.0) is None
    assert history.steps_counted_since(0.0) == 0


def test_the_time_of_a_step_is_when_it_was_first_counted(ledger: Ledger, report: Report) -> None:
    ledger.record([report("a", steps={1: (10, 5.0)})], now=2000.0)
    ledger.record([report("b", user="bo", steps={1: (30, 1.0), 2: (30, 1.0)})], now=2500.0)
    first, second = ledger.history.steps(50)
    assert (first.step, first.time, first.samples, first.peers, first.loss) == (1, 2000.0, 40.0, 2.0, 2.0)
    assert (second.step, second.time) == (2, 2500.0)
    assert ledger.history.started() == 2000.0
    assert [ledger.history.steps_counted_since(time) for time in (1999.0, 2000.0, 2500.0)] == [2, 1, 0]


def test_buckets_of_steps_are_means_over_steps_and_losses_over_samples(ledger: Ledger, report: Report) -> None:
    for step, samples, loss in ((10, 10, 6.0), (11, 30, 2.0), (12, 20, 4.0), (15, 20, 4.0)):
        ledger.record([report("a", steps={step: (samples, loss)}, last_seen=1100.0 + step)], now=2000.0 + step)
    first, second, third = ledger.history.steps(3)  # 10 and 11, 12 and 13, 14 and 15
    assert (first.step, first.time, first.samples, first.tokens) == (11, 2011.0, 20.0, 20.0 * 128)
    assert first.loss == pytest.approx((10 * 6.0 + 30 * 2.0) / 40)
    assert [(one.step, one.samples) for one in (second, third)] == [(12, 20.0), (15, 20.0)]
    assert len(ledger.history.steps(50)) == 4


def test_a_minute_tells_who_is_there_and_what_was_done_so_far(ledger: Ledger, report: Report) -> None:
    ledger.record([report("a", last_seen=6000.0, data_wait_fraction=0.2)], now=6000.0)
    ledger.record([report("a", steps={0: (10, 5.0)}, last_seen=6030.0, data_wait_fraction=0.2)], now=6030.0)
    ledger.record([report("b", user="bo", started=0.0, last_seen=1.0, samples_per_second=99.0)], now=6030.0)  # gone
    ledger.history.note_minute(averaging_seconds=2.5, now=6031.0)
    minute = ledger.history.minute_before(0.0)  # there is none by then
    assert minute is not None
    assert (minute.time, minute.sessions, minute.users) == (6000, 1, 1)
    assert (minute.samples_per_second, minute.data_wait_fraction, minute.averaging_seconds) == (10.0, 0.2, 2.5)
    assert (minute.users_ever, minute.samples, minute.tokens) == (2, 10, 1280)
    assert (minute.seconds, minute.averaging_rounds, minute.averaging_failures) == (30.0, 6, 0)
    ledger.history.note_minute(averaging_seconds=None, now=6059.0)
    again = ledger.history.minute_before(6000.0)
    assert again is not None and (again.time, again.averaging_seconds) == (6000, None)
    ledger.history.note_minute(averaging_seconds=None, now=9000.0)
    times = [minute.time for time in (8999.0, 9000.0) if (minute := ledger.history.minute_before(time))]
    assert times == [6000, 9000]


def test_data_wait_is_of_those_who_are_there_and_train(ledger: Ledger, report: Report) -> None:
    assert ledger.history.data_wait(6000.0) == 0.0
    ledger.record([report("a", last_seen=6000.0, data_wait_fraction=0.1)], now=6000.0)
    ledger.record([report("b", last_seen=6000.0, data_wait_fraction=0.3)], now=6000.0)
    ledger.record([report("gone", last_seen=1.0, data_wait_fraction=0.9)], now=6000.0)
    ledger.record([report("host", last_seen=6000.0, data_wait_fraction=0.9, hosts_experts=True)], now=6000.0)
    assert ledger.history.data_wait(6000.0) == pytest.approx(0.2)
    assert ledger.history.data_wait(9000.0) == 0.0


def test_spans_are_means_and_count_from_the_end_of_the_one_before(ledger: Ledger, report: Report) -> None:
    def minute(number: int, rounds: int, averaging: float | None, steps: dict[int, tuple[int, float]]) -> None:
        now = 6000.0 + 60 * number
        ledger.record([report("a", last_seen=now, averaging_rounds=rounds, steps=steps)], now=now)
        ledger.history.note_minute(averaging_seconds=averaging, now=now)

    minute(0, 1, None, {0: (10, 5.0)})
    minute(1, 3, 4.0, {1: (10, 5.0)})
    minute(2, 4, None, {})
    minute(3, 5, 8.0, {2: (10, 5.0)})
    minute(9, 9, None, {3: (60, 5.0)})  # nobody looked in between
    first, second, third = ledger.history.minutes(5)  # two minutes each, and two of them are left out
    assert [one.time for one in (first, second, third)] == [6060, 6180, 6540]
    assert (first.sessions, first.users, first.averaging_seconds) == (1.0, 1.0, 4.0)
    assert [one.averaging_rounds for one in (first, second, third)] == [2, 2, 4]
    assert first.tokens_per_second == pytest.approx(10 * 128 / 60)
    assert second.averaging_seconds == 8.0 and third.averaging_seconds is None
    assert third.tokens_per_second == pytest.approx(60 * 128 / 360)
    assert sum(one.averaging_failures for one in (first, second, third)) == 0


def test_what_was_filled_in_last_for_a_step_stands(ledger: Ledger) -> None:
    ledger.history.record_fills(4, fills("boat"), now=5.0)
    ledger.history.record_fills(8, fills("নদী"), now=6.0)
    ledger.history.record_fills(4, fills("sea"), now=7.0)
    ledger.history.record_fills(12, fills(probability=math.nan), now=8.0)
    first, second = ledger.history.fills(50)
    assert (first.step, first.time, list(first.sentences)) == (4, 7.0, fills("sea"))
    assert (second.step, list(second.sentences)) == (8, fills("নদী"))


def test_of_many_fills_and_evaluations_some_are_told_the_newest_among_them(ledger: Ledger) -> None:
    for step in range(10):
        ledger.history.record_fills(step, fills(), now=float(step))
        ledger.record_evaluation(step, 5.0, sentence_order_loss=0.5, samples=1, now=float(step))
    assert [one.step for one in ledger.history.fills(4)] == [0, 3, 6, 9]
    assert [one.step for one in ledger.history.evaluations(4)] == [0, 3, 6, 9]
    assert spread([1, 2, 3], 3) == [1, 2, 3]


def averaging(ledger: Ledger) -> list[tuple[float, float | None]]:
    return [(one.time, one.averaging_seconds) for one in ledger.history.minutes(50)]


def test_one_row_a_minute_with_the_rounds_that_ended_before_it(ledger: Ledger) -> None:
    now = [600.0, 659.0, 660.0, 721.0]
    minutes = MinuteRecorder(ledger.history, lambda: now.pop(0))
    minutes.note()
    minutes.round_ended(2.0)
    minutes.round_ended(6.0)
    while now:
        minutes.note()
    assert averaging(ledger) == [(600, None), (660, 4.0), (720, None)]


def test_rounds_are_not_lost_with_a_row_that_could_not_be_written(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    minutes = MinuteRecorder(ledger.history, lambda: 600.0)
    minutes.round_ended(2.0)
    with monkeypatch.context() as patched:
        patched.setattr(ledger.history, "note_minute", Mock(side_effect=LedgerError("locked")))
        with pytest.raises(LedgerError):
            minutes.note()
    minutes.note()
    assert averaging(ledger) == [(600, 2.0)]


@pytest.mark.skipif(not hasattr(time, "CLOCK_BOOTTIME"), reason="there is no clock that nobody sets")
def test_minutes_and_days_are_those_of_the_swarm_when_the_machine_s_clock_is_set(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger.record([], now=clock.now())
    minutes, right = MinuteRecorder(ledger.history), time.time()
    monkeypatch.setattr(time, "time", lambda: right + 7 * 86400.0)
    monkeypatch.setattr(datetime, "datetime", Set)
    minutes.note()
    (row,) = ledger.history.minutes(50)
    assert abs(row.time - right) < 3600
    assert abs(today() - datetime.date.fromtimestamp(right)) <= datetime.timedelta(days=1)


class Set(datetime.datetime):
    """The time of a machine whose clock was put forward by a week."""

    @classmethod
    def now(cls, tz: datetime.tzinfo | None = None) -> "Set":
        return cls.fromtimestamp(time.time(), tz)
