"""What several questions to the ledger share: columns, sums, conditions, and who has done how much."""

import datetime
from typing import Any

from sqlalchemy import BigInteger, cast, func, select

from coordinator.ledger.ingest import PRESENT_SECONDS
from coordinator.ledger.schema import DayRow, SessionRow
from swarm import clock

# the columns in the order of a SessionSummary, which ends with `present`
SESSION_COLUMNS = [
    SessionRow.session_id,
    SessionRow.user_name,
    SessionRow.peer_id,
    SessionRow.client_mode,
    SessionRow.device,
    SessionRow.started,
    SessionRow.last_seen,
    SessionRow.step,
    SessionRow.samples_per_second,
    SessionRow.averaging_rounds,
    SessionRow.averaging_failures,
    SessionRow.data_wait_fraction,
    SessionRow.has_left,
    SessionRow.samples,
    SessionRow.tokens,
]


def leaders(now: float) -> Any:
    """One row for each user: name, samples, tokens, seconds, and the rest of a `Leader`."""
    return select(
        SessionRow.user_name,
        whole_sum(SessionRow.samples),
        whole_sum(SessionRow.tokens),
        func.sum(SessionRow.seconds),
        func.count(),
        func.count().filter(is_present(now)),
        func.min(SessionRow.started),
        func.max(SessionRow.last_seen),
    ).group_by(SessionRow.user_name)


def leaders_since(since: datetime.date, now: float) -> Any:
    """The same, from that day on."""
    midnight = datetime.datetime(since.year, since.month, since.day, tzinfo=datetime.timezone.utc).timestamp()
    counted = (
        select(
            DayRow.user_name,
            whole_sum(DayRow.samples).label("samples"),
            whole_sum(DayRow.tokens).label("tokens"),
            func.sum(DayRow.seconds).label("seconds"),
        )
        .where(DayRow.day >= since)
        .group_by(DayRow.user_name)
        .subquery()
    )
    return (
        select(
            SessionRow.user_name,
            counted.c.samples,
            counted.c.tokens,
            counted.c.seconds,
            func.count().filter(SessionRow.heard >= midnight),
            func.count().filter(is_present(now)),
            func.min(SessionRow.started),
            func.max(SessionRow.last_seen),
        )
        .join(counted, counted.c.user_name == SessionRow.user_name)
        .group_by(SessionRow.user_name, counted.c.samples, counted.c.tokens, counted.c.seconds)
    )


def whole_sum(column: Any) -> Any:
    """A sum of whole numbers as a whole number; PostgreSQL alone would widen it to a decimal."""
    return cast(func.coalesce(func.sum(column), 0), BigInteger)


def is_present(now: float) -> Any:
    """The condition that a session reported recently, not in the far future, and did not say goodbye."""
    recently = SessionRow.last_seen.between(now - PRESENT_SECONDS, now + PRESENT_SECONDS)
    return recently & ~SessionRow.has_left


def moment(now: float | None) -> float:
    """The unix time that is meant, by default the clock's."""
    return clock.now() if now is None else now
