"""Queries about teams: the board, and one team's people and days."""

import datetime
from typing import Any

from sqlalchemy import BigInteger, func, literal, select

from coordinator.ledger.queries import is_present, share, whole_sum, with_share_of_day
from coordinator.ledger.tables import DayRow, SessionRow, TeamDayRow, TeamMemberRow, TeamRow


def board(now: float, since: datetime.date | None) -> Any:
    """One row for each team, with what a `TeamSummary` has; with `since`, of those that gave something from then on."""
    given = _given(TeamMemberRow if since is None else TeamDayRow)
    everything: Any = select(whole_sum(SessionRow.samples)) if since is None else select(whole_sum(DayRow.samples))
    if since is not None:
        given, everything = given.where(TeamDayRow.day >= since), everything.where(DayRow.day >= since)
    gave, members = given.subquery(), _members(now)
    samples, served = (func.coalesce(column, literal(0, BigInteger)) for column in (gave.c.samples, gave.c.served))
    query = (
        select(
            TeamRow.team_id,
            TeamRow.name,
            TeamRow.created,
            func.coalesce(members.c.members, 0).label("members"),
            func.coalesce(members.c.present, 0).label("present"),
            samples.label("samples"),
            share(samples, everything.scalar_subquery()).label("share"),
            served.label("tokens_served"),
        )
        .outerjoin(gave, gave.c.team_id == TeamRow.team_id)
        .outerjoin(members, members.c.team_id == TeamRow.team_id)
        .order_by(samples.desc(), served.desc(), TeamRow.created, TeamRow.folded)
    )
    return query if since is None else query.where((samples > 0) | (served > 0))


def people(team_id: str, now: float, most: int) -> Any:
    """One row for each user of a team, with what a `TeamPerson` has."""
    here = _here(now)
    own = select(TeamMemberRow).where(TeamMemberRow.team_id == team_id).subquery()
    return (
        select(
            own.c.user_name.label("user"),
            own.c.is_member,
            (own.c.is_member & here.c.user_name.is_not(None)).label("present"),
            own.c.samples,
            share(own.c.samples, func.sum(own.c.samples).over()).label("share"),
            own.c.tokens_served,
        )
        .outerjoin(here, here.c.user_name == own.c.user_name)
        .order_by(own.c.samples.desc(), own.c.tokens_served.desc(), own.c.user_name)
        .limit(most)
    )


def days(team_id: str) -> Any:
    """One row for each day of a team, with what a `TeamDay` has, in order."""
    return with_share_of_day(select(TeamDayRow.day, TeamDayRow.samples).where(TeamDayRow.team_id == team_id))


def _given(kind: type[TeamMemberRow] | type[TeamDayRow]) -> Any:
    sums = (whole_sum(kind.samples).label("samples"), whole_sum(kind.tokens_served).label("served"))
    return select(kind.team_id, *sums).group_by(kind.team_id)


def _here(now: float) -> Any:
    """Users who are present."""
    return select(SessionRow.user_name).where(is_present(now)).distinct().subquery()


def _members(now: float) -> Any:
    here = _here(now)
    return (
        select(TeamMemberRow.team_id, func.count().label("members"), func.count(here.c.user_name).label("present"))
        .outerjoin(here, here.c.user_name == TeamMemberRow.user_name)
        .where(TeamMemberRow.is_member)
        .group_by(TeamMemberRow.team_id)
        .subquery()
    )
