from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from app.join.admission import team_line as joined_line
from app.join.problems import ProblemKind
from app.me.team import Mine, OwnTeam, Team, TeamAction, board_lines, own_line, team
from swarm.access.join_messages import JoinAnswer
from swarm.identity import load_identity
from swarm.language import VARIABLE
from tests.app.join.stand_in import OPEN_RUN, Answer, StandIn
from tests.support.problems import raises_problem

RIVER = Team(name="River", members=2, present=1, samples=1234, share=0.5)


@pytest.fixture
def peer(tmp_path: Path) -> Path:
    load_identity(tmp_path / "identity.key").lock.close()
    return tmp_path


@pytest.fixture
def coordinator() -> StandIn:
    stand_in = StandIn()
    own = {"name": "River", "samples": 12}
    stand_in.answers = {
        "GET /api/run": Answer(body=OPEN_RUN | {"name": "delta"}),
        "GET /api/teams": Answer(body=f"[{RIVER.model_dump_json()}]"),
        "POST /api/me/key": Answer(body={"user": "~asha", "peer_id": "Qm", "key": "k", "expires": 1e12}),
        "GET /api/me/team": Answer(body={"user": "~asha", "team": own}),
        "POST /api/me/team": Answer(body={"user": "~asha", "team": own}),
    }
    return stand_in


def test_the_board_is_in_the_language_of_the_run(
    coordinator: StandIn, peer: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    coordinator.answers["GET /api/run"] = Answer(body=OPEN_RUN | {"name": "delta", "language": "bn"})
    said: list[str] = []
    team(coordinator.url, None, None, said.append, state=peer)
    assert said[0].startswith("delta") and "Teams" not in said[0]


def changes(coordinator: StandIn) -> list[tuple[str, str | None, Any]]:
    return [(one.method, one.bearer, one.body) for one in coordinator.heard if one.path == "/api/me/team"]


def test_the_board_and_ones_own_team_are_shown(coordinator: StandIn, peer: Path) -> None:
    said: list[str] = []
    team(coordinator.url, None, None, said.append, state=peer)
    assert said == [
        "Teams in delta:",
        "  1. River: 1,234 samples (50.0% of all), members: 2, here now: 1",
        "~asha is in River and has given it 12 samples.",
    ]
    assert changes(coordinator) == [("GET", "k", None)]


@pytest.mark.parametrize("action", [TeamAction.JOIN, TeamAction.CREATE])
def test_a_team_is_joined_or_created(coordinator: StandIn, peer: Path, action: TeamAction) -> None:
    team(coordinator.url, action, " River ", print, state=peer)
    assert changes(coordinator) == [("POST", "k", {"name": "River", "create": action is TeamAction.CREATE})]


def test_what_is_not_possible_is_said(coordinator: StandIn, peer: Path) -> None:
    refused = {"error": "malformed", "message": "there is no team Sea in this run"}
    coordinator.answers["POST /api/me/team"] = Answer(404, refused)
    with raises_problem(ProblemKind.MALFORMED, "no team Sea"):
        team(coordinator.url, TeamAction.JOIN, "Sea", print, state=peer)
    with raises_problem(ProblemKind.MALFORMED, "needs a team's name"):
        team(coordinator.url, TeamAction.CREATE, " ", print, state=peer)
    with raises_problem(ProblemKind.MALFORMED, "takes no name"):
        team(coordinator.url, TeamAction.LEAVE, "River", print, state=peer)


def test_everybody_may_see_the_board(coordinator: StandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SAHAJ_HOME", str(tmp_path))
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    monkeypatch.delenv("HF_TOKEN", raising=False)
    said: list[str] = []
    team(coordinator.url, None, None, said.append)
    assert "join the run on this machine first" in said[-1]
    with raises_problem(ProblemKind.TOKEN_MISSING, "join first"):
        team(coordinator.url, TeamAction.LEAVE, None, said.append)


def test_a_long_board_is_cut_and_names_stay_text() -> None:
    many = [RIVER.model_copy(update={"name": f"Team \x1b[2J{number}"}) for number in range(12)]
    lines = board_lines("delta", many)
    assert len(lines) == 12 and lines[-1].endswith("and 2 more")
    assert all(line.isprintable() for line in lines)
    assert board_lines("delta", []) == ["delta has no team yet."]
    assert "join NAME" in own_line(Mine(user="asha", team=None))
    assert own_line(Mine(user="asha", team=OwnTeam(name="River", samples=1))).startswith("asha is in River")


def test_joining_the_run_says_what_came_of_the_team() -> None:
    none: Callable[..., JoinAnswer] = JoinAnswer.model_construct
    assert joined_line("river", none(team="River", no_team="")) == "You train for the team River."
    unknown = joined_line("Sea", none(team="", no_team="there is no team Sea in this run"))
    assert "no team Sea" in unknown and "train all the same" in unknown and "\n" not in unknown
