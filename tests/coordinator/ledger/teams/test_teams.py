import datetime
from collections.abc import Callable

import pytest
from sqlalchemy.exc import IntegrityError

from coordinator.ledger.ingest import SessionReport
from coordinator.ledger.ledger import Ledger
from coordinator.ledger.serving import ServingBound
from coordinator.ledger.storage.database import LedgerError, upsert, writing
from coordinator.ledger.tables import TeamMemberRow
from coordinator.ledger.teams import membership
from coordinator.ledger.teams.membership import CREATED_A_DAY, DAY, Obstacle, TeamRefused

Report = Callable[..., SessionReport]

MONDAY = datetime.date(2026, 3, 2)
MIDNIGHT = datetime.datetime(2026, 3, 2, tzinfo=datetime.timezone.utc).timestamp()


def given(ledger: Ledger, since: datetime.date | None = None) -> dict[str, int]:
    return {one.name: one.samples for one in ledger.teams.board(since=since)}


def people(ledger: Ledger, name: str, now: float | None = None) -> list[tuple[str, bool, bool, int]]:
    return [(one.user, one.is_member, one.present, one.samples) for one in ledger.teams.people(name, 100, now)]


def refusal(action: Callable[[], object]) -> tuple[Obstacle, str]:
    with pytest.raises(TeamRefused) as caught:
        action()
    assert str(caught.value).isprintable()
    return caught.value.obstacle, str(caught.value)


def memberships(ledger: Ledger) -> dict[str, str]:
    return {user: team.name for user in ("asha", "bo") if (team := ledger.teams.of(user))}


def test_credit_counts_for_the_team_that_somebody_is_in_and_stays_with_it(ledger: Ledger, report: Report) -> None:
    ledger.record([report("a", steps={1: (1, 5.0)})], now=MIDNIGHT)
    ledger.teams.create("asha", "River")
    ledger.record([report("a", steps={1: (1, 5.0), 2: (2, 5.0)}, last_seen=1200.0)], now=MIDNIGHT + 60)
    ledger.teams.create("bo", "Sea")
    ledger.teams.join("asha", "SEA")  # in the middle of a day
    ledger.record([report("a", steps={3: (4, 5.0)}, last_seen=1300.0)], now=MIDNIGHT + 120)
    ledger.teams.leave("asha")
    ledger.record([report("a", steps={4: (8, 5.0)}, last_seen=1400.0)], now=MIDNIGHT + 180)
    ledger.teams.join("asha", "river")
    ledger.record([report("a", steps={5: (16, 5.0)}, last_seen=1500.0)], now=MIDNIGHT + DAY)
    assert given(ledger) == {"River": 18, "Sea": 4}
    assert given(ledger, MONDAY) == {"River": 18, "Sea": 4}
    assert given(ledger, MONDAY + datetime.timedelta(days=1)) == {"River": 16}
    assert people(ledger, "River") == [("asha", True, False, 18)]
    assert people(ledger, "Sea") == [("asha", False, False, 4), ("bo", True, False, 0)]
    assert [(one.day, one.samples, one.share) for one in ledger.teams.days("River")] == [
        (MONDAY, 2, pytest.approx(2 / 15)),
        (MONDAY + datetime.timedelta(days=1), 16, 1.0),
    ]
    (leader,) = ledger.leaderboard()
    assert leader.samples == 31  # their own, whatever team they were in


def test_tokens_that_a_host_serves_count_for_its_team(ledger: Ledger, report: Report) -> None:
    ledger.teams.create("hema", "Hosts")
    host = report("h", user="hema", hosts_experts=True)
    trainer = report("a", steps={1: (100, 5.0)}, served={"peer-h": 5000})
    ledger.record([host, trainer], now=MIDNIGHT, serving=ServingBound(4, 0.15))
    (team,) = ledger.teams.board(since=MONDAY)
    assert (team.name, team.samples, team.tokens_served) == ("Hosts", 0, 5000)
    assert [one.tokens_served for one in ledger.teams.people("Hosts", 10)] == [5000]


def test_the_board_tells_who_is_here(ledger: Ledger, report: Report) -> None:
    now = MIDNIGHT
    ledger.teams.create("asha", "River", now)
    ledger.teams.join("bo", "River", now)
    ledger.teams.create("cleo", "Sea", now)
    ledger.record([report("a", steps={1: (30, 5.0)}, last_seen=now), report("b", last_seen=now)], now=now)
    ledger.record([report("c", user="bo", steps={1: (10, 5.0)}, last_seen=now - 600)], now=now)
    ledger.record([report("d", user="dee", steps={1: (10, 5.0)}, last_seen=now)], now=now)
    assert [tuple(dict(one).values()) for one in ledger.teams.board(now)] == [
        ("River", 2, 1, 40, 0.8, 0, now),
        ("Sea", 1, 0, 0, 0.0, 0, now),
    ]
    assert people(ledger, "River", now) == [("asha", True, True, 30), ("bo", True, False, 10)]
    ledger.teams.leave("asha")
    assert people(ledger, "River", now)[0] == ("asha", False, False, 30)  # here, but not for the team


def test_a_person_is_in_one_team(ledger: Ledger) -> None:
    assert ledger.teams.of("asha") is None
    ledger.teams.create("asha", "River", 1000.0)
    ledger.teams.create("bo", "Sea", 1000.0)
    ledger.teams.join("asha", "Sea", 2000.0)
    ledger.teams.join("asha", "Sea", 3000.0)  # they are in it already
    found = ledger.teams.of("asha")
    assert found is not None
    assert (found.name, found.since, found.samples) == ("Sea", 2000.0, 0)
    assert memberships(ledger) == {"asha": "Sea", "bo": "Sea"}
    assert list(given(ledger)) == ["Sea"]  # nobody is in the other, and nothing was given to it
    row = {"team_id": "x", "user_name": "asha", "is_member": True, "since": 0.0, "samples": 0, "tokens_served": 0}
    with pytest.raises(LedgerError) as caught, writing(ledger._engine) as connection:
        upsert(connection, TeamMemberRow, [row])
    assert isinstance(caught.value.__cause__, IntegrityError)


def test_a_team_that_has_given_something_stays_without_members(ledger: Ledger, report: Report) -> None:
    ledger.teams.create("asha", "River")
    ledger.record([report("a", steps={1: (32, 5.0)})])
    ledger.teams.leave("asha")
    ledger.teams.leave("asha")  # once more: nothing happens
    (team,) = ledger.teams.board()
    assert (team.name, team.members, team.samples) == ("River", 0, 32)
    ledger.teams.join("bo", "River")
    ledger.teams.leave("bo")
    assert people(ledger, "River") == [("asha", False, False, 32)]


def test_names_are_taken_whatever_their_case_and_form(ledger: Ledger) -> None:
    ledger.teams.create("asha", "Café")
    obstacle, message = refusal(lambda: ledger.teams.create("bo", "CAFE\u0301"))
    assert obstacle is Obstacle.TAKEN and "Café" in message
    assert refusal(lambda: ledger.teams.create("bo", "a\u202eb"))[0] is Obstacle.NAME
    assert refusal(lambda: ledger.teams.join("bo", "a\x00\ud800b"))[0] is Obstacle.UNKNOWN
    assert refusal(lambda: ledger.teams.people("Sea", 10))[0] is Obstacle.UNKNOWN
    assert memberships(ledger) == {"asha": "Café"}


def test_one_person_creates_few_teams_a_day(ledger: Ledger, report: Report) -> None:
    for number in range(CREATED_A_DAY):
        ledger.teams.create("asha", f"Team {number}", MIDNIGHT)
        ledger.record([report("a", steps={number: (1, 5.0)}, last_seen=1200.0 + number)])
    obstacle, message = refusal(lambda: ledger.teams.create("asha", "One more", MIDNIGHT + 60))
    assert obstacle is Obstacle.TOO_MANY and "join one (`sahaj team LINK` shows them), or wait a day" in message
    ledger.teams.create("asha", "One more", MIDNIGHT + DAY + 60)


def test_a_run_has_a_maximum_of_teams(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(membership, "MOST_TEAMS", 1)
    ledger.teams.create("asha", "River")
    assert refusal(lambda: ledger.teams.create("bo", "Pond"))[0] is Obstacle.TOO_MANY


def test_an_organizer_renames_and_removes_a_team(ledger: Ledger, report: Report) -> None:
    ledger.teams.create("asha", "River")
    ledger.teams.create("bo", "Sea")
    ledger.record([report("a", steps={1: (32, 5.0)})])
    assert refusal(lambda: ledger.teams.rename("River", "sea"))[0] is Obstacle.TAKEN
    ledger.teams.rename("river", "RIVER")  # another spelling of its own name
    ledger.teams.rename("river", "Stream")
    assert given(ledger) == {"Stream": 32, "Sea": 0}
    ledger.teams.remove("stream")
    assert given(ledger) == {"Sea": 0}
    assert ledger.teams.of("asha") is None
    ledger.record([report("a", steps={2: (8, 5.0)}, last_seen=1200.0)])
    assert ledger.leaderboard()[0].samples == 40
    ledger.teams.create("asha", "Stream")
    assert given(ledger)["Stream"] == 0  # another team of that name
