"""Who takes part and on what, in SQLite and in PostgreSQL."""

import datetime
from collections.abc import Callable

import pytest

from coordinator.ledger.answers import CountryCount, ModeCount
from coordinator.ledger.ingest import SessionReport
from coordinator.ledger.ledger import Ledger

Report = Callable[..., SessionReport]
DAY = 86400.0


@pytest.fixture
def asha_and_bo(ledger: Ledger, report: Report) -> Ledger:
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
    ledger.record([report("d", user="di", started=0.0, last_seen=1.0, device="mps")], now=2 * DAY)
    return ledger


def test_the_days_of_a_user_have_their_share_of_everybodys(asha_and_bo: Ledger) -> None:
    first, second = asha_and_bo.people.days("asha")
    assert (first.day, first.samples, first.tokens, first.share) == (datetime.date(1970, 1, 2), 30, 3840, 0.75)
    assert first.hours == pytest.approx(100 / 3600)
    assert (second.day, second.samples, second.share) == (datetime.date(1970, 1, 3), 20, 1.0)
    assert asha_and_bo.people.days("nobody") == []


def test_the_newest_sessions_come_first(asha_and_bo: Ledger) -> None:
    assert [one.session_id[0] for one in asha_and_bo.people.newest_sessions(3)] == ["b", "a", "c"]
    own = asha_and_bo.people.newest_sessions(9, "asha", now=2 * DAY)
    assert [(one.session_id[0], one.present) for one in own] == [("b", True), ("a", False)]


def test_devices_by_what_they_brought(asha_and_bo: Ledger) -> None:
    first, second = asha_and_bo.people.devices(9, now=2 * DAY)
    assert (first.device, first.sessions, first.present, first.samples) == ("Tesla T4", 2, 1, 30)
    assert (second.device, second.sessions, second.present, second.samples) == ("mps", 2, 0, 30)
    assert second.samples_per_second == pytest.approx(30 / 100)
    assert len(asha_and_bo.people.devices(1)) == 1


def test_client_mode_or_not(asha_and_bo: Ledger) -> None:
    found = asha_and_bo.people.modes(now=2 * DAY)
    assert found == {
        False: ModeCount(sessions=3, present=1, samples=30),
        True: ModeCount(sessions=1, present=0, samples=30),
    }


def test_a_person_with_two_devices_is_one_in_a_country(asha_and_bo: Ledger) -> None:
    assert asha_and_bo.people.countries() == [
        CountryCount(country="BD", people=1),
        CountryCount(country="GB", people=1),
    ]


def test_the_machines_of_a_user_with_what_they_did_last(asha_and_bo: Ledger, report: Report) -> None:
    again = report("e", peer_id="peer-a", device="cuda", last_seen=3 * DAY, pause="hours", steps={3: (5, 5.0)})
    hosts = report("f", hosts_experts=True, last_seen=3 * DAY)
    asha_and_bo.record([again, hosts], now=3 * DAY)
    found = asha_and_bo.people.machines("asha", 9, now=3 * DAY)
    assert [(one.peer_id, one.device, one.present, one.samples) for one in found] == [
        ("peer-a", "cuda", True, 35),
        ("peer-b", "Tesla T4", False, 20),
    ]
    assert (found[0].pause, found[0].last_seen) == ("hours", 3 * DAY)
    assert asha_and_bo.people.machines("asha", 1, now=3 * DAY) == found[:1]
    assert asha_and_bo.people.machines("asha", 9, "peer-b", now=3 * DAY) == found[1:]
    assert asha_and_bo.people.machines("asha", 9, "peer-c") == asha_and_bo.people.machines("nobody", 9) == []
