"""What `sahaj team` does: it shows a run's teams and one's own, and joins, creates or leaves one."""

from collections.abc import Callable, Sequence
from pathlib import Path

from app.join.coordinator_client import CoordinatorClient
from app.join.problems import JoinProblem, ProblemKind
from app.me.me import Run
from app.me.personal_key import ask_for_key
from app.options import TeamAction
from swarm.access.join_messages import Message
from swarm.language import _, speak
from trainer.console.terminal_text import printable

PATH = "/api/me/team"
SHOWN = 10  # teams of the board


class Team(Message):
    """Of `GET /api/teams`, what is told here."""

    name: str
    members: int
    present: int
    samples: int
    share: float


class OwnTeam(Message):
    """The team that a person is in."""

    name: str
    samples: int


class Mine(Message):
    """Of `/api/me/team`."""

    user: str
    team: OwnTeam | None


def team(
    url: str,
    action: TeamAction | None,
    name: str | None,
    say: Callable[[str], None],
    *,
    state: Path | None = None,
    allow_write_token: bool = False,
) -> None:
    """Change the person's team if that is asked for, then tell the board and the person's team.

    Raises:
        SahajError: the coordinator cannot be asked, does not know the person, or the team is not possible.
    """
    check(action, name)
    with CoordinatorClient(url) as client:
        run = client.run(Run)
        speak(run.language)
        try:
            key = ask_for_key(client, run.name, state, say, allow_write_token=allow_write_token).key
        except JoinProblem as problem:
            if action is not None or problem.kind is not ProblemKind.TOKEN_MISSING:
                raise
            mine = None  # everybody may see the board
        else:
            mine = client.parse(Mine, _change(client, action, name, key))
        found = client.parse(list[Team], client.ask("GET", "/api/teams"))
        lines = [*board_lines(run.name, found), unknown_line() if mine is None else own_line(mine)]
    for line in lines:
        say(line)


def check(action: TeamAction | None, name: str | None) -> None:
    """See that a name stands where one is needed.

    Raises:
        JoinProblem: it does not.
    """
    needs = action in (TeamAction.JOIN, TeamAction.CREATE)
    if needs and not (name or "").strip():
        raise JoinProblem(ProblemKind.MALFORMED, missing_name_line(str(action.value if action else "")))
    if name is not None and not needs:
        raise JoinProblem(ProblemKind.MALFORMED, _("leave: takes no name; everybody is in one team at most"))


def board_lines(run: str, teams: Sequence[Team]) -> list[str]:
    """The board, from its top."""
    if not teams:
        return [no_teams_line(run)]
    lines = [heading_line(run), *(team_line(rank, one) for rank, one in enumerate(teams[:SHOWN], start=1))]
    return lines if len(teams) <= SHOWN else [*lines, more_line(len(teams) - SHOWN)]


def heading_line(run: str) -> str:
    """What stands above the board."""
    return _("Teams in {run}:").format(run=printable(run))


def no_teams_line(run: str) -> str:
    """What stands there in place of a board."""
    return _("{run} has no team yet.").format(run=printable(run))


def team_line(rank: int, team: Team) -> str:
    """A team on the board."""
    said = _("{rank}. {team}: {samples} samples ({share} of all), members: {members}, here now: {present}")
    return said.format(
        rank=f"{rank:>3,}",
        team=printable(team.name),
        samples=f"{team.samples:,}",
        share=f"{team.share:.1%}",
        members=f"{team.members:,}",
        present=f"{team.present:,}",
    )


def more_line(left: int) -> str:
    """How many are not shown."""
    return "     " + _("and {n} more").format(n=f"{left:,}")


def own_line(mine: Mine) -> str:
    """The person's own team."""
    user = printable(mine.user)
    if mine.team is None:
        none = _(
            "{user} is in no team. `sahaj team LINK join NAME` joins one, `sahaj team LINK create NAME` begins one."
        )
        return none.format(user=user)
    gave = _("{user} is in {team} and has given it {n} samples.")
    return gave.format(user=user, team=printable(mine.team.name), n=f"{mine.team.samples:,}")


def unknown_line() -> str:
    """In place of the person's own team, where nothing tells who they are."""
    return _(
        "To see and change your own team, join the run on this machine first, or set HF_TOKEN to a token of yours."
    )


def missing_name_line(action: str) -> str:
    """What is said where the name of a team is missing."""
    return _("{action}: needs a team's name, as `sahaj team LINK {action} 'River people'`").format(action=action)


def _change(client: CoordinatorClient, action: TeamAction | None, name: str | None, key: str) -> bytes:
    if action is None:
        return client.ask("GET", PATH, bearer=key)
    if action is TeamAction.LEAVE:
        return client.ask("DELETE", PATH, bearer=key)
    body = {"name": (name or "").strip(), "create": action is TeamAction.CREATE}
    return client.ask("POST", PATH, bearer=key, body=body)
