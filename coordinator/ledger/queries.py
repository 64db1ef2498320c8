"""What several queries of the ledger share: sums, conditions, and rows of sessions and users."""

import datetime
from typing import Any, TypeVar

from sqlalchemy import BigInteger, Double, Engine, cast, func, select

from coordinator.ledger.answers import Answer
from coordinator.ledger.ingest import PRESENT_SECONDS
from coordinator.ledger.storage.database import reading
from coordinator.ledger.tables import DayRow, SessionRow
from swarm import clock

T = TypeVar("T", bound=Answer)


def session_rows(now: float) -> Any:
    """One row for each session, with what a `SessionSummary` has."""
    names = (SessionRow.user_name.label("user"), SessionRow.has_left.label("left"))
    return select(SessionRow.__table__, *names, is_present(now).label("present"))


def leaders(now: float) -> Any:
    """One row for each user, with what a `Leader` has."""
    sums = (whole_sum(SessionRow.samples), whole_sum(SessionRow.tokens), func.sum(SessionRow.seconds))
    return _leaders(now, *sums, func.count()).group_by(SessionRow.user_name)


def leaders_since(since: datetime.date, now: float) -> Any:
    """The same, of what was counted from that day (UTC) on."""
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
    sums = (counted.c.samples, counted.c.tokens, counted.c.seconds)
    return (
        _leaders(now, *sums, func.count().filter(SessionRow.heard >= midnight))
        .join(counted, counted.c.user_name == SessionRow.user_name)
        .group_by(SessionRow.user_name, *sums)
    )


def _leaders(now: float, samples: Any, tokens: Any, seconds: Any, sessions: Any) -> Any:
    return select(
        SessionRow.user_name.label("user"),
        samples.label("samples"),
        tokens.label("tokens"),
        (seconds / 3600).label("hours"),
        share(samples, func.sum(samples).over()).label("share"),
        sessions.label("sessions"),
        func.count().filter(is_present(now)).label("sessions_present"),
        func.min(SessionRow.started).label("first_seen"),
        func.max(SessionRow.last_seen).label("last_seen"),
    ).order_by(samples.desc(), SessionRow.user_name)


def share(part: Any, everything: Any) -> Any:
    """The fraction that a sum has of another one; 0 if that is 0."""
    return func.coalesce(cast(part, Double) / func.nullif(everything, 0), 0.0)


def whole_sum(column: Any) -> Any:
    """A sum of integers as an integer; PostgreSQL alone would widen it to a decimal."""
    return cast(func.coalesce(func.sum(column), 0), BigInteger)


def is_present(now: float) -> Any:
    """The condition that a session reported recently, not in the far future, and did not say goodbye."""
    recently = SessionRow.last_seen.between(now - PRESENT_SECONDS, now + PRESENT_SECONDS)
    return recently & ~SessionRow.has_left


def moment(now: float | None) -> float:
    """The unix time that is meant, by default the clock's."""
    return clock.now() if now is None else now


def ask(engine: Engine, query: Any, kind: type[T]) -> list[T]:
    """The rows of a query as answers of a kind, which takes the columns of its fields' names."""
    with reading(engine) as connection:
        return [kind.model_validate(row) for row in connection.execute(query)]
