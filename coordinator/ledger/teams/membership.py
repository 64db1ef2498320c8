"""Teams: create, join, leave, and the organizer's orders about them. A person is in at most one team."""

import contextlib
import datetime
import secrets
import shlex
from enum import Enum

from sqlalchemy import Connection, Engine, delete, func, select, update

from coordinator.ledger.queries import ask, moment
from coordinator.ledger.storage.database import reading, upsert, writing
from coordinator.ledger.tables import TeamDayRow, TeamMemberRow, TeamRow
from coordinator.ledger.teams import board
from coordinator.ledger.teams.answers import Membership, TeamDay, TeamPerson, TeamSummary
from coordinator.ledger.teams.names import NameRefused, folded, team_name
from swarm.access import team_refusals
from swarm.errors import SahajError

MOST_TEAMS = 2000
CREATED_A_DAY = 3  # by one person
DAY = 86400.0  # seconds


class Obstacle(str, Enum):
    """Why something about a team was refused."""

    NAME = "name"  # nothing may be called that
    TAKEN = "taken"
    UNKNOWN = "unknown"
    TOO_MANY = "too_many"
    NOTHING_GIVEN = "nothing_given"  # and the name is one that anybody can choose


class TeamRefused(SahajError):
    """What was asked of a team is not possible. The message is one line for people."""

    def __init__(self, obstacle: Obstacle, message: str):
        super().__init__(message)
        self.obstacle = obstacle


def no_such_team(name: str) -> TeamRefused:
    """The error for a name that no team has."""
    try:
        name = shlex.quote(team_name(name))
    except NameRefused as error:  # what cannot be shown is not repeated
        return TeamRefused(Obstacle.UNKNOWN, str(error))
    return TeamRefused(Obstacle.UNKNOWN, team_refusals.UNKNOWN.format(name=name))


class Teams:
    """The part of a ledger that is about teams; every method may raise `LedgerError`."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def board(self, now: float | None = None, since: datetime.date | None = None) -> list[TeamSummary]:
        """All teams, the one with most samples first; with `since`, what was counted from that day (UTC) on.

        With `since`, teams of which nothing was counted are left out.
        """
        return ask(self._engine, board.board(moment(now), since), TeamSummary)

    def people(self, name: str, most: int, now: float | None = None) -> list[TeamPerson]:
        """At most so many who are in the team or gave something to it, those who gave most first."""
        return ask(self._engine, board.people(self._id(name), moment(now), most), TeamPerson)

    def days(self, name: str) -> list[TeamDay]:
        """The days on which something was counted for the team, in order."""
        return ask(self._engine, board.days(self._id(name)), TeamDay)

    def of(self, user: str) -> Membership | None:
        """The team that a user is in."""
        given = (TeamMemberRow.since, TeamMemberRow.samples, TeamMemberRow.tokens_served)
        own = select(TeamRow.name, *given).join(TeamMemberRow, TeamMemberRow.team_id == TeamRow.team_id)
        found = ask(self._engine, own.where(TeamMemberRow.user_name == user, TeamMemberRow.is_member), Membership)
        return found[0] if found else None

    def join(self, user: str, name: str, now: float | None = None) -> None:
        """Let a user be in this team, and in no other any more.

        Raises:
            TeamRefused: there is no team of that name.
        """
        with writing(self._engine) as connection:
            _enter(connection, user, _team(connection, name), moment(now))

    def create(self, user: str, name: str, now: float | None = None) -> None:
        """Create a team, with this user in it.

        Raises:
            TeamRefused: the name cannot be used, or there are too many teams.
        """
        now, kept = moment(now), _checked(name)
        with writing(self._engine) as connection:
            _refuse_if_taken(connection, kept)
            _refuse_if_too_many(connection, user, now)
            row = {"team_id": secrets.token_hex(8), "name": kept, "folded": folded(kept)}
            upsert(connection, TeamRow, [row | {"creator": user, "created": now}])
            _enter(connection, user, row["team_id"], now)

    def leave(self, user: str) -> None:
        """Let a user be in no team; what they gave to theirs stays with it."""
        with writing(self._engine) as connection:
            _leave(connection, user)

    def rename(self, name: str, new: str) -> None:
        """Call a team something else.

        Raises:
            TeamRefused: there is no such team, or the new name cannot be used.
        """
        kept = _checked(new)
        with writing(self._engine) as connection:
            team_id = _team(connection, name)
            _refuse_if_taken(connection, kept, team_id)
            own = update(TeamRow).where(TeamRow.team_id == team_id)
            connection.execute(own.values(name=kept, folded=folded(kept)))

    def remove(self, name: str) -> None:
        """Take a team off the board, with what it gave; its people keep their own credit.

        Raises:
            TeamRefused: there is no such team.
        """
        with writing(self._engine) as connection:
            _remove(connection, _team(connection, name))

    def _id(self, name: str) -> str:
        with reading(self._engine) as connection:
            return _team(connection, name)


def _checked(name: str) -> str:
    try:
        return team_name(name)
    except NameRefused as error:
        raise TeamRefused(Obstacle.NAME, str(error)) from None


def _team(connection: Connection, name: str) -> str:
    """The id of a team."""
    with contextlib.suppress(NameRefused):  # no team can have it, and perhaps no database can be asked for it
        kept = folded(team_name(name))
        if (found := connection.scalar(select(TeamRow.team_id).where(TeamRow.folded == kept))) is not None:
            return found
    raise no_such_team(name)


def _refuse_if_taken(connection: Connection, name: str, by_other_than: str = "") -> None:
    query = select(TeamRow.name).where(TeamRow.folded == folded(name), TeamRow.team_id != by_other_than)
    if (taken := connection.scalar(query)) is not None:
        raise TeamRefused(Obstacle.TAKEN, team_refusals.TAKEN.format(name=taken))


def _refuse_if_too_many(connection: Connection, user: str, now: float) -> None:
    count = select(func.count()).select_from(TeamRow)
    lately = count.where(TeamRow.creator == user, TeamRow.created > now - DAY)
    if connection.execute(lately).scalar_one() >= CREATED_A_DAY:
        raise TeamRefused(Obstacle.TOO_MANY, team_refusals.TOO_MANY_OF_ONE.format(n=CREATED_A_DAY))
    if connection.execute(count).scalar_one() >= MOST_TEAMS:
        raise TeamRefused(Obstacle.TOO_MANY, team_refusals.TOO_MANY.format(n=f"{MOST_TEAMS:,}"))


def _enter(connection: Connection, user: str, team_id: str, now: float) -> None:
    current = select(TeamMemberRow.team_id).where(TeamMemberRow.user_name == user, TeamMemberRow.is_member)
    if connection.scalar(current) == team_id:
        return
    _leave(connection, user)
    row = {"team_id": team_id, "user_name": user, "is_member": True, "since": now, "samples": 0, "tokens_served": 0}
    upsert(connection, TeamMemberRow, [row], adding=("samples", "tokens_served"))


def _leave(connection: Connection, user: str) -> None:
    """A team of which nobody is left and to which nobody has given anything vanishes."""
    own = (TeamMemberRow.user_name == user) & TeamMemberRow.is_member
    row = connection.execute(select(TeamMemberRow.__table__).where(own)).one_or_none()
    if row is None:
        return
    if row.samples or row.tokens_served:
        connection.execute(update(TeamMemberRow).where(own).values(is_member=False))
        return
    connection.execute(delete(TeamMemberRow).where(own))
    left = select(func.count()).select_from(TeamMemberRow).where(TeamMemberRow.team_id == row.team_id)
    if not connection.execute(left).scalar_one():
        _remove(connection, row.team_id)


def _remove(connection: Connection, team_id: str) -> None:
    for kind in (TeamDayRow, TeamMemberRow, TeamRow):
        connection.execute(delete(kind).where(kind.team_id == team_id))
