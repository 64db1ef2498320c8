"""Teams over HTTP: the board and a team for everybody, one's own with a personal key, and the organizer's orders."""

from collections.abc import Callable
from typing import Any
from unittest.mock import Mock

import httpx
import pytest

from coordinator.access.person_key import issue_key
from coordinator.cached import Cached
from coordinator.http.routes.teams import CHANGES
from coordinator.ledger.ingest import SessionReport
from swarm.access.passes import load_authority
from tests.coordinator.http.conftest import Service

Report = Callable[..., SessionReport]
BOAT = "12D3KooWSecretPeerb"  # the machine of ~boat


@pytest.fixture(autouse=True)
def nothing_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Answers are found anew for each request."""
    found = Cached.__call__

    def anew(self: Cached[Any]) -> Any:
        self._found = None
        return found(self)

    monkeypatch.setattr(Cached, "__call__", anew)


def mine(service: Service, user: str, method: str = "GET", **body: Any) -> httpx.Response:
    peer_id = BOAT if user.startswith("~") else None
    key, _ = issue_key(service.context.authority, service.context.run.name, user, peer_id)
    headers = {"Authorization": f"Bearer {key}"}
    return service.client.request(method, "/api/me/team", json=body or None, headers=headers)


def board(service: Service, period: str = "run") -> list[tuple[str, int, int, int, float]]:
    answer = service.client.get("/api/teams", params={"period": period})
    assert answer.headers["cache-control"] == "public, max-age=5"
    return [(one["name"], one["members"], one["present"], one["samples"], one["share"]) for one in answer.json()]


def problem(answer: httpx.Response) -> tuple[int, str]:
    assert answer.headers["cache-control"] == "no-store"
    assert set(answer.json()) == {"error", "message"} and answer.json()["message"].isprintable()
    return answer.status_code, answer.json()["error"]


def test_a_person_creates_joins_and_leaves_a_team(service: Service, report: Report) -> None:
    assert mine(service, "asha").json() == {"user": "asha", "team": None}
    assert board(service) == []
    answer = mine(service, "asha", "POST", name="  River  people ", create=True)
    assert answer.status_code == 200 and answer.headers["cache-control"] == "no-store"
    assert answer.json()["team"]["name"] == "River people"
    assert mine(service, "~boat", "POST", name="RIVER PEOPLE").json()["team"]["samples"] == 0
    service.context.ledger.record(
        [report("a" * 32, peer_id="12D3KooWSecretPeera", steps={9: (60, 5.0)}, last_seen=2000.0)]
    )
    assert board(service) == [("River people", 2, 0, 60, pytest.approx(60 / 140))]
    assert board(service, "day") == [("River people", 2, 0, 60, pytest.approx(60 / 140))]
    left = mine(service, "asha", "DELETE")
    assert left.json() == {"user": "asha", "team": None}
    team = service.client.get("/api/team", params={"name": "river people"}).json()
    assert (team["name"], team["rank"], team["members"]) == ("River people", 1, 1)
    assert [(one["user"], one["is_member"], one["samples"], one["verified"]) for one in team["people"]] == [
        ("asha", False, 60, True),
        ("~boat", True, 0, False),
    ]
    assert [(one["samples"], one["share"]) for one in team["days"]] == [(60, pytest.approx(60 / 140))]
    person = service.client.get("/api/person", params={"user": "~boat"}).json()
    assert person["team"] == "River people"
    assert service.client.get("/api/person", params={"user": "asha"}).json()["team"] is None


def test_what_is_not_possible_is_said_in_a_line(service: Service) -> None:
    mine(service, "asha", "POST", name="River", create=True)
    assert problem(mine(service, "bo", "POST", name="Sea")) == (404, "malformed")
    assert problem(mine(service, "bo", "POST", name="rIVER", create=True)) == (409, "malformed")
    assert problem(mine(service, "bo", "POST", name="<b>", create=True)) == (422, "malformed")
    assert problem(mine(service, "bo", "POST", name="a\u202eb\u0000", create=True)) == (422, "malformed")
    assert problem(mine(service, "bo", "POST", name="x" * 101, create=True)) == (422, "malformed")
    assert problem(mine(service, "bo", "POST", create=True)) == (422, "malformed")
    assert problem(service.client.get("/api/team", params={"name": "Sea\u0000"})) == (404, "malformed")
    assert problem(service.client.get("/api/team")) == (422, "malformed")
    assert problem(service.client.get("/api/teams", params={"period": "year"})) == (422, "malformed")


def test_only_a_personal_key_of_this_run_changes_a_team(service: Service, tmp_path: Any) -> None:
    other, _ = issue_key(load_authority(tmp_path / "other.key"), service.context.run.name, "asha", None)
    for headers in ({}, {"Authorization": f"Bearer {other}"}, {"Authorization": f"Bearer {service.context.admin_key}"}):
        for method, body in (("GET", None), ("POST", {"name": "River", "create": True}), ("DELETE", None)):
            answer = service.client.request(method, "/api/me/team", json=body, headers=headers)
            assert problem(answer)[0] == 401
    service.context.notices.ban("asha")
    assert problem(mine(service, "asha", "POST", name="River", create=True))[0] == 403
    assert board(service) == []


def test_a_team_cannot_be_changed_all_the_time(service: Service) -> None:
    mine(service, "bo", "POST", name="River", create=True)
    for number in range(CHANGES):
        answer = mine(service, "asha", *(["POST"] if number % 2 else ["DELETE"]), name="River")
        assert answer.status_code == 200
    refused = mine(service, "asha", "POST", name="River")
    assert problem(refused) == (429, "too_many") and int(refused.headers["retry-after"]) > 60
    assert mine(service, "asha").json()["team"]["name"] == "River"
    assert mine(service, "bo", "DELETE").status_code == 200  # others may


def test_who_joins_the_run_comes_into_the_team_that_they_name(service: Service, report: Report) -> None:
    mine(service, "asha", "POST", name="River", create=True)
    service.context.ledger.record([report("c", user="~boat", peer_id=service.peer["peer_id"], steps={9: (8, 5.0)})])
    answer = service.join(name="boat", team="rIver").json()
    assert (answer["team"], answer["no_team"]) == ("River", "")
    unknown = service.join(name="boat", team="Sea\u0000")
    assert unknown.status_code == 200
    assert unknown.json()["team"] == "" and "only, not U+0000 at place 4" in unknown.json()["no_team"]
    unknown = service.join(name="boat", team="Open  Sea")
    way_out = "there is no team 'Open Sea' in this run; to start it: `sahaj team LINK create 'Open Sea'`"
    assert unknown.json()["no_team"] == way_out
    assert mine(service, "~boat").json()["team"]["name"] == "River"
    nobody = service.join(name="made up", team="River").json()
    assert nobody["team"] == "" and "first sample" in nobody["no_team"], "names are free, room is not"
    service.join(name="boat")  # as at a renewal
    assert mine(service, "~boat").json()["team"]["name"] == "River"


def test_a_self_chosen_name_has_a_team_by_a_machine_that_has_given_something(service: Service, report: Report) -> None:
    mine(service, "asha", "POST", name="River", create=True)
    mine(service, "~boat", "POST", name="River")
    other = issue_key(service.context.authority, service.context.run.name, "~boat", "another of that name")[0]
    headers = {"Authorization": f"Bearer {other}"}

    def from_elsewhere() -> list[tuple[int, str]]:
        create = service.client.post("/api/me/team", json={"name": "Sea", "create": True}, headers=headers)
        return [problem(one) for one in (create, service.client.delete("/api/me/team", headers=headers))]

    assert from_elsewhere() == [(403, "malformed")] * 2
    assert mine(service, "~boat").json()["team"]["name"] == "River"
    service.context.ledger.record([report("c", user="~boat", peer_id="another of that name", steps={9: (8, 5.0)})])
    assert service.client.delete("/api/me/team", headers=headers).status_code == 200


def test_an_organizer_renames_and_removes_teams(service: Service, report: Report) -> None:
    mine(service, "asha", "POST", name="River", create=True)
    service.context.ledger.record([report("c", user="asha", steps={9: (60, 5.0)})])
    service.context.notices.ban("asha")
    assert board(service) == [("River", 1, 0, 60, pytest.approx(60 / 140))]  # as on the leaderboard
    assert service.admin("rename-team", name="river", new="Stream").status_code == 200
    assert [name for name, *_ in board(service)] == ["Stream"]
    assert problem(service.admin("rename-team", name="Stream", new="\u202e")) == (422, "malformed")
    assert problem(service.admin("remove-team", name="River")) == (404, "malformed")
    assert service.admin("remove-team", key="wrong", name="Stream").status_code == 401
    assert service.admin("remove-team", name="Stream").status_code == 200
    assert board(service) == []
    assert service.client.get("/api/person", params={"user": "asha"}).json()["samples"] == 124


def test_a_team_that_is_removed_while_it_is_looked_up_is_unknown(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine(service, "asha", "POST", name="River", create=True)
    teams = service.context.ledger.teams
    monkeypatch.setattr(teams, "board", Mock(side_effect=[teams.board(), []]))
    assert problem(service.client.get("/api/team", params={"name": "River"})) == (404, "malformed")
