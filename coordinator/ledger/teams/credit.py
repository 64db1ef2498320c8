"""Credits users' days, and with them the teams that the users are in at that moment.

Both happen in the transaction that enters the headers, so a crash counts nothing double for a team either. What was
counted before somebody came into a team, or for another team on the same day, stays where it is.
"""

from sqlalchemy import Connection, select

from coordinator.ledger.ingest import Row
from coordinator.ledger.storage.database import rows_in, upsert
from coordinator.ledger.tables import DayRow, TeamDayRow, TeamMemberRow

CREDIT = ("samples", "tokens_served")


def credit_days(connection: Connection, rows: list[Row]) -> None:
    """Add to users' days, and to their teams.

    Args:
        rows: of `DayRow`, at most one for each user.
    """
    upsert(connection, DayRow, rows, adding=("samples", "tokens", "seconds", "tokens_served"))
    new = {row["user_name"]: row for row in rows if any(row[name] for name in CREDIT)}
    query = select(TeamMemberRow.__table__).where(TeamMemberRow.is_member)
    members = rows_in(connection, query, TeamMemberRow.user_name, new)
    days: dict[tuple[object, str], Row] = {}
    for one in members:
        counted = new[one["user_name"]]
        day, team = key = counted["day"], one["team_id"]
        of_day = days.setdefault(key, {"day": day, "team_id": team} | dict.fromkeys(CREDIT, 0))
        for name in CREDIT:
            one[name] = counted[name]
            of_day[name] += counted[name]
    upsert(connection, TeamMemberRow, members, adding=CREDIT)
    upsert(connection, TeamDayRow, list(days.values()), adding=CREDIT)
