"""Credits users' days, and with them the teams that the users are in at that moment.

Both happen in the transaction that enters the headers, so a crash counts nothing double for a team either. What was
counted before somebody came into a team, or for another team on the same day, stays where it is.
"""

from collections.abc import Iterable
from typing import Any

from sqlalchemy import Connection, select

from coordinator.ledger.storage.database import rows_in, upsert
from coordinator.ledger.tables import DayRow, TeamDayRow, TeamMemberRow

CREDIT = ("samples", "tokens_served")

Row = dict[str, Any]  # of a table, by column


def credit_days(connection: Connection, rows: list[Row]) -> None:
    """Add to users' days, and to their teams.

    Args:
        rows: of `DayRow`, at most one for each user.
    """
    upsert(connection, DayRow, rows, adding=("samples", "tokens", "seconds", "tokens_served"))
    new = {row["user_name"]: row for row in rows if any(row[name] for name in CREDIT)}
    members, days = for_teams(new, _memberships(connection, new))
    upsert(connection, TeamMemberRow, members, adding=CREDIT)
    upsert(connection, TeamDayRow, days, adding=CREDIT)


def for_teams(new: dict[str, Row], memberships: Iterable[Row]) -> tuple[list[Row], list[Row]]:
    """What to add to rows of members and to days of teams.

    Args:
        new: what was counted, by user.
        memberships: rows of those of the users who are in a team.
    """
    members: list[Row] = []
    days: dict[tuple[object, str], Row] = {}
    for one in memberships:
        counted = new[one["user_name"]]
        credit = {name: counted[name] for name in CREDIT}
        members.append(one | credit)
        key = counted["day"], one["team_id"]
        of_day = days.setdefault(key, {"day": key[0], "team_id": key[1]} | dict.fromkeys(CREDIT, 0))
        for name in CREDIT:
            of_day[name] += credit[name]
    return members, list(days.values())


def _memberships(connection: Connection, users: Iterable[str]) -> list[Row]:
    query = select(TeamMemberRow.__table__).where(TeamMemberRow.is_member)
    return rows_in(connection, query, TeamMemberRow.user_name, users)
