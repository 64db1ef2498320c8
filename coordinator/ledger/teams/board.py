"""Queries about teams: the board, one team's people and days, and who is in which."""

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
    gave, members, here = given.subquery(), _members().subquery(), _members_here(now).subquery()
    samples, served = (func.coalesce(column, literal(0, BigInteger)) for column in (gave.c.samples, gave.c.served))
    query = (
        select(
            TeamRow.team_id,
            TeamRow.name,
            TeamRow.created,
            func.coalesce(members.c.members, 0).label("members"),
            func.coalesce(here.c.present, 0).label("present"),
            samples.label("samples"),
            share(samples, everything.scalar_subquery()).label("share"),
            served.label("tokens_served"),
        )
        .outerjoin(gave, gave.c.team_id == TeamRow.team_id)
        .outerjoin(members, members.c.team_id == TeamRow.team_id)
        .outerjoin(here, here.c.team_id == TeamRow.team_id)
        .order_by(samples.desc(), served.desc(), TeamRow.created, TeamRow.folded)
    )
    return query if since is None else query.where((samples > 0) | (served > 0))


def people(team_id: str, now: float, most: int) -> Any:
    """One row for each user of a team, with what a `TeamPerson` has."""
    here = select(SessionRow.user_name).where(is_present(now)).distinct().subquery()
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


def memberships() -> Any:
    """One row for each user who is in a team: `user`, and what a `Membership` has."""
    return (
        select(
            TeamMemberRow.user_name.label("user"),
            TeamRow.name,
            TeamMemberRow.since,
            TeamMemberRow.samples,
            TeamMemberRow.tokens_served,
        )
        .join(TeamRow, TeamRow.team_id == TeamMemberRow.team_id)
        .where(TeamMemberRow.is_member)
    )


def _given(kind: type[TeamMemberRow] | type[TeamDayRow]) -> Any:
    sums = (whole_sum(kind.samples).label("samples"), whole_sum(kind.tokens_served).label("served"))
    return select(kind.team_id, *sums).group_by(kind.team_id)


def _members() -> Any:
    own = select(TeamMemberRow.team_id, func.count().label("members")).where(TeamMemberRow.is_member)
    return own.group_by(TeamMemberRow.team_id)


def _members_here(now: float) -> Any:
    return (
        select(TeamMemberRow.team_id, func.count(SessionRow.user_name.distinct()).label("present"))
        .join(SessionRow, SessionRow.user_name == TeamMemberRow.user_name)
        .where(TeamMemberRow.is_member, is_present(now))
        .group_by(TeamMemberRow.team_id)
    )
