"""What `sahaj team` does: it shows a run's teams and one's own, and joins, creates or leaves one."""

from collections.abc import Callable, Sequence
from pathlib import Path

from app.join.coordinator_client import CoordinatorClient
from app.join.problems import JoinProblem, ProblemKind
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
        run = client.run()
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
    for line in [*board_lines(run.name, found), own_line(mine)]:
        say(line)


def check(action: TeamAction | None, name: str | None) -> None:
    """See that a name stands where one is needed.

    Raises:
        JoinProblem: it does not.
    """
    if action is None or action is TeamAction.LEAVE:
        if name is not None:
            raise JoinProblem(ProblemKind.MALFORMED, _("leave: takes no name; everybody is in one team at most"))
    elif not (name or "").strip():
        missing = _("{action}: needs a team's name, as `sahaj team LINK {action} 'River people'`")
        raise JoinProblem(ProblemKind.MALFORMED, missing.format(action=action.value))


def board_lines(run: str, teams: Sequence[Team]) -> list[str]:
    """The board, from its top."""
    if not teams:
        return [_("{run} has no team yet.").format(run=run)]
    lines = [_("Teams in {run}:").format(run=run)]
    lines += [_line(rank, one) for rank, one in enumerate(teams[:SHOWN], start=1)]
    if len(teams) > SHOWN:
        lines.append("     " + _("and {n} more").format(n=f"{len(teams) - SHOWN:,}"))
    return lines


def _line(rank: int, team: Team) -> str:
    said = _("{rank}. {team}: {samples} samples ({share} of all), members: {members}, here now: {present}")
    return said.format(
        rank=f"{rank:>3,}",
        team=printable(team.name),
        samples=f"{team.samples:,}",
        share=f"{team.share:.1%}",
        members=f"{team.members:,}",
        present=f"{team.present:,}",
    )


def own_line(mine: Mine | None) -> str:
    """The person's own team; `mine` is None where nothing tells who they are."""
    if mine is None:
        return _(
            "To see and change your own team, join the run on this machine first, or set HF_TOKEN to a token of yours."
        )
    user = printable(mine.user)
    if mine.team is None:
        none = _(
            "{user} is in no team. `sahaj team LINK join NAME` joins one, `sahaj team LINK create NAME` begins one."
        )
        return none.format(user=user)
    gave = _("{user} is in {team} and has given it {n} samples.")
    return gave.format(user=user, team=printable(mine.team.name), n=f"{mine.team.samples:,}")


def _change(client: CoordinatorClient, action: TeamAction | None, name: str | None, key: str) -> bytes:
    if action is None:
        return client.ask("GET", PATH, bearer=key)
    if action is TeamAction.LEAVE:
        return client.ask("DELETE", PATH, bearer=key)
    body = {"name": (name or "").strip(), "create": action is TeamAction.CREATE}
    return client.ask("POST", PATH, bearer=key, body=body)
