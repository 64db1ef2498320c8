"""Who takes part and on what, in SQLite and in PostgreSQL."""

import datetime
from collections.abc import Callable

import pytest

from coordinator.ledger.ledger import Ledger, SessionReport
from coordinator.ledger.people import CountryCount, ModeCount

Report = Callable[..., SessionReport]
DAY = 86400.0


@pytest.fixture
def census(ledger: Ledger, report: Report) -> Ledger:
    """Two days of two people, one of whom has two devices."""
    a, b, c = (
        {"user": "asha", "device": "mps", "client_mode": True, "country": "BD"},
        {"user": "asha", "device": "Tesla T4", "country": "BD"},
        {"user": "bo", "device": "Tesla T4", "country": "GB"},
    )
    ledger.record([report("a", last_seen=DAY, **a), report("c", last_seen=DAY, **c)], now=DAY)
    later = DAY + 100
    ledger.record([report("a", last_seen=later, steps={1: (30, 5.0)}, **a)], now=later)
    ledger.record([report("c", last_seen=later, steps={1: (10, 5.0)}, **c)], now=later)
    ledger.record([report("b", last_seen=2 * DAY, steps={2: (20, 5.0)}, **b)], now=2 * DAY)
    ledger.record([report("d", user="di", last_seen=1.0, device="mps")], now=2 * DAY)
    return ledger


def test_the_days_of_a_user_have_their_share_of_everybodys(census: Ledger) -> None:
    first, second = census.census.days("asha")
    assert (first.day, first.samples, first.tokens, first.share) == (datetime.date(1970, 1, 2), 30, 3840, 0.75)
    assert first.hours == pytest.approx(100 / 3600)
    assert (second.day, second.samples, second.share) == (datetime.date(1970, 1, 3), 20, 1.0)
    assert census.census.days("nobody") == []


def test_the_newest_sessions_come_first(census: Ledger) -> None:
    assert [one.session_id[0] for one in census.census.newest_sessions(3)] == ["b", "a", "c"]
    own = census.census.newest_sessions(9, "asha", now=2 * DAY)
    assert [(one.session_id[0], one.present) for one in own] == [("b", True), ("a", False)]


def test_devices_by_what_they_brought(census: Ledger) -> None:
    first, second = census.census.devices(9, now=2 * DAY)
    assert (first.device, first.sessions, first.present, first.samples) == ("Tesla T4", 2, 1, 30)
    assert (second.device, second.sessions, second.present, second.samples) == ("mps", 2, 0, 30)
    assert second.samples_per_second == pytest.approx(30 / 100)
    assert len(census.census.devices(1)) == 1


def test_client_mode_or_not(census: Ledger) -> None:
    found = sorted(census.census.modes(now=2 * DAY), key=lambda one: one.client_mode)
    assert found == [ModeCount(False, 3, 1, 30), ModeCount(True, 1, 0, 30)]


def test_a_person_with_two_devices_is_one_in_a_country(census: Ledger) -> None:
    assert census.census.countries() == [CountryCount("BD", 1), CountryCount("GB", 1)]


@pytest.mark.parametrize("country", ["BGD", "bd", "", "B", "B\n"])
def test_a_report_with_an_impossible_country_is_ignored(ledger: Ledger, report: Report, country: str) -> None:
    ledger.record([report("a", country=country)])
    assert ledger.sessions() == []
