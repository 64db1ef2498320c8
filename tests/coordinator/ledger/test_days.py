"""What is counted for a day, and for how long somebody was there: by the coordinator's clock, not the peers'."""

import datetime
from collections.abc import Callable
from pathlib import Path

import pytest

from coordinator.ledger.ingest import PRESENT_SECONDS, SessionReport, seconds_here
from coordinator.ledger.ledger import Ledger, open_ledger

Report = Callable[..., SessionReport]

MONDAY = datetime.date(2026, 3, 2)
MIDNIGHT = datetime.datetime(2026, 3, 2, tzinfo=datetime.timezone.utc).timestamp()
DAY = 86400.0


def samples_since(ledger: Ledger, days: int) -> dict[str, int]:
    since = MONDAY + datetime.timedelta(days=days)
    return {one.user: one.samples for one in ledger.leaderboard(now=MIDNIGHT, since=since)}


def test_presence_is_time_between_reports_and_never_longer_than_a_record_lives() -> None:
    assert seconds_here(1000.0, 1010.0) == 10.0
    assert seconds_here(1000.0, 1000.0 + 10 * PRESENT_SECONDS) == PRESENT_SECONDS
    assert seconds_here(1000.0, 900.0) == 0.0  # the clock was set back


def test_samples_count_for_the_day_on_which_they_came(ledger: Ledger, report: Report) -> None:
    ledger.record([report("a", steps={1: (10, 5.0)})], now=MIDNIGHT - 5)
    ledger.record([report("a", steps={1: (10, 5.0), 2: (7, 5.0)}, last_seen=1200.0)], now=MIDNIGHT + 5)
    ledger.record([report("b", user="bo", steps={2: (20, 5.0)})], now=MIDNIGHT + DAY)
    assert samples_since(ledger, -1) == {"bo": 20, "asha": 17}
    assert samples_since(ledger, 0) == {"bo": 20, "asha": 7}
    assert samples_since(ledger, 1) == {"bo": 20}
    assert samples_since(ledger, 2) == {}


def test_a_leaderboard_of_some_days_tells_of_the_sessions_in_them(ledger: Ledger, report: Report) -> None:
    now = MIDNIGHT + 3600
    ledger.record([report("a", steps={1: (10, 5.0)}, started=100.0)], now=MIDNIGHT - DAY)
    ledger.record([report("b", steps={1: (30, 5.0)}, last_seen=now - 36)], now=now - 36)
    ledger.record([report("b", last_seen=now)], now=now)
    ledger.record([report("c", user="bo", steps={1: (10, 5.0)}, last_seen=now - 600)], now=now)
    assert [tuple(dict(one).values()) for one in ledger.leaderboard(now=now, since=MONDAY)] == [
        ("asha", 30, 30 * 128, pytest.approx(0.01), 0.75, 0, 100.0, now, 1, 1),
        ("bo", 10, 10 * 128, 0.0, 0.25, 0, 1000.0, now - 600, 1, 0),
    ]


def test_hours_are_those_in_which_the_coordinator_heard_of_each_device(ledger: Ledger, report: Report) -> None:
    for seconds in range(0, 3600 + 1, 60):
        ledger.record([report(name, last_seen=1000.0 + seconds) for name in "ab"], now=MIDNIGHT + seconds)
    (leader,) = ledger.leaderboard()
    assert leader.hours == pytest.approx(2.0)
    ledger.record([report("a", last_seen=9000.0)], now=MIDNIGHT + 7200)  # it was silent for an hour
    (leader,) = ledger.leaderboard()
    assert leader.hours == pytest.approx(2.0 + PRESENT_SECONDS / 3600)
    (leader,) = ledger.leaderboard(since=MONDAY)
    assert leader.hours == pytest.approx(2.0 + PRESENT_SECONDS / 3600)


def test_a_record_that_is_only_read_again_is_no_sign_of_life(ledger_url: str, tmp_path: Path, report: Report) -> None:
    for seconds in range(0, 100, 10):
        ledger = open_ledger(ledger_url, tmp_path)  # the coordinator is restarted again and again
        ledger.record([report("a")], now=MIDNIGHT + seconds)
        assert ledger.leaderboard()[0].hours == 0.0
        ledger.close()


def test_credit_that_comes_between_two_reports_takes_no_time_away(ledger: Ledger, report: Report) -> None:
    for seconds in range(0, 60 + 1, 10):
        ledger.record([report("a", last_seen=1000.0 + seconds)], now=MIDNIGHT + seconds)
        credited = report("a", steps={seconds: (10, 5.0)}, last_seen=1000.0 + seconds)
        ledger.record([credited], now=MIDNIGHT + seconds + 8)
    assert ledger.leaderboard()[0].hours == pytest.approx(60 / 3600)


def test_a_peer_cannot_talk_itself_into_hours(ledger: Ledger, report: Report) -> None:
    for number in range(10):  # within one second
        claim = report("a", started=0.0, last_seen=1000.0 * number)
        ledger.record([claim], now=MIDNIGHT + number / 10)
    assert ledger.leaderboard()[0].hours == pytest.approx(0.9 / 3600)


def test_nobody_has_a_share_before_the_first_sample(ledger: Ledger, report: Report) -> None:
    ledger.record([report("a")], now=MIDNIGHT)
    assert [one.share for one in ledger.leaderboard()] == [0.0]
