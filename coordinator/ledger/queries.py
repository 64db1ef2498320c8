"""Queries of the ledger about users, their sessions and devices, and what all queries share: sums and conditions."""

import datetime
from typing import Any, TypeVar

from sqlalchemy import BigInteger, Double, Engine, cast, func, select

from coordinator.ledger.answers import (
    Answer,
    CountryCount,
    DeviceCount,
    MachineSummary,
    ModeCount,
    SessionSummary,
    UserDay,
)
from coordinator.ledger.ingest import PRESENT_SECONDS
from coordinator.ledger.storage.database import reading
from coordinator.ledger.tables import DayRow, SessionRow
from swarm import clock
from swarm.milestones import Standing

T = TypeVar("T", bound=Answer)


def session_rows(now: float) -> Any:
    """One row for each session, with what a `SessionSummary` has."""
    names = (SessionRow.user_name.label("user"), SessionRow.has_left.label("left"))
    return select(SessionRow.__table__, *names, is_present(now).label("present"))


def leaders(now: float) -> Any:
    """One row for each user, with what a `Leader` has."""
    sums = (
        whole_sum(SessionRow.samples),
        whole_sum(SessionRow.tokens),
        func.sum(SessionRow.seconds),
        whole_sum(SessionRow.tokens_served),
    )
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
            whole_sum(DayRow.tokens_served).label("tokens_served"),
        )
        .where(DayRow.day >= since)
        .group_by(DayRow.user_name)
        .subquery()
    )
    sums = (counted.c.samples, counted.c.tokens, counted.c.seconds, counted.c.tokens_served)
    return (
        _leaders(now, *sums, func.count().filter(SessionRow.heard >= midnight))
        .join(counted, counted.c.user_name == SessionRow.user_name)
        .group_by(SessionRow.user_name, *sums)
    )


def _leaders(now: float, samples: Any, tokens: Any, seconds: Any, served: Any, sessions: Any) -> Any:
    return select(
        SessionRow.user_name.label("user"),
        samples.label("samples"),
        tokens.label("tokens"),
        (seconds / 3600).label("hours"),
        share(samples, func.sum(samples).over()).label("share"),
        served.label("tokens_served"),
        sessions.label("sessions"),
        func.count().filter(is_present(now)).label("sessions_present"),
        func.min(SessionRow.started).label("first_seen"),
        func.max(SessionRow.last_seen).label("last_seen"),
    ).order_by(samples.desc(), served.desc(), SessionRow.user_name)


def share(part: Any, everything: Any) -> Any:
    """The fraction that a sum has of another one; 0 if that is 0."""
    return func.coalesce(cast(part, Double) / func.nullif(everything, 0), 0.0)


def with_share_of_day(query: Any) -> Any:
    """The rows of a query, at most one for each `day`, with the share of their `samples` in all users' on that day."""
    own = query.subquery()
    of_all = share(own.c.samples, func.sum(DayRow.samples)).label("share")
    return select(*own.c, of_all).join(DayRow, DayRow.day == own.c.day).group_by(*own.c).order_by(own.c.day)


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


class PeopleQueries:
    """The part of a ledger that is about users and devices; every method may raise `LedgerError`."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def newest_sessions(self, most: int, user: str | None = None, now: float | None = None) -> list[SessionSummary]:
        """At most so many sessions, of one user or of all, by their newest reports, the newest first."""
        query = session_rows(moment(now))
        if user is not None:
            query = query.where(SessionRow.user_name == user)
        query = query.order_by(SessionRow.last_seen.desc(), SessionRow.session_id).limit(most)
        return ask(self._engine, query, SessionSummary)

    def machines(
        self, user: str, most: int, peer_id: str | None = None, now: float | None = None
    ) -> list[MachineSummary]:
        """At most so many machines on which a user has trained, or the one of this peer id; the newest first."""
        newest = SessionRow.last_seen.desc(), SessionRow.session_id
        own = select(
            SessionRow.peer_id,
            SessionRow.device,
            SessionRow.last_seen,
            is_present(moment(now)).label("present"),
            SessionRow.pause,
            SessionRow.samples_per_second,
            cast(func.sum(SessionRow.samples).over(partition_by=SessionRow.peer_id), BigInteger).label("samples"),
            func.row_number().over(partition_by=SessionRow.peer_id, order_by=newest).label("place"),
        ).where(SessionRow.user_name == user, ~SessionRow.hosts_experts)
        if peer_id is not None:
            own = own.where(SessionRow.peer_id == peer_id)
        found = own.subquery()
        query = select(found).where(found.c.place == 1).order_by(found.c.last_seen.desc(), found.c.peer_id).limit(most)
        return ask(self._engine, query, MachineSummary)

    def user_of(self, peer_id: str) -> str | None:
        """Whose machine a peer is, by its newest session."""
        newest = select(SessionRow.user_name).where(SessionRow.peer_id == peer_id)
        with reading(self._engine) as connection:
            return connection.scalar(newest.order_by(SessionRow.last_seen.desc()).limit(1))

    def has_given(self, user: str, peer_id: str | None) -> bool:
        """Whether a sample or a served token of a user was counted on this machine."""
        gave = (SessionRow.samples > 0) | (SessionRow.tokens_served > 0)
        own = select(SessionRow.peer_id).where(SessionRow.user_name == user, SessionRow.peer_id == peer_id, gave)
        with reading(self._engine) as connection:
            return connection.scalar(own.limit(1)) is not None

    def days(self, user: str) -> list[UserDay]:
        """The days on which something was counted for a user, in order."""
        hours = (DayRow.seconds / 3600).label("hours")
        own = select(DayRow.day, DayRow.samples, DayRow.tokens, DayRow.tokens_served, hours)
        return ask(self._engine, with_share_of_day(own.where(DayRow.user_name == user)), UserDay)

    def standing(self, user: str) -> Standing:
        """What a user has given so far; days with nothing but presence are none of a row."""
        gave = ((DayRow.samples > 0) | (DayRow.tokens_served > 0)).label("gave")
        query = select(DayRow.day, DayRow.samples, DayRow.seconds, gave).where(DayRow.user_name == user)
        standing = Standing()
        with reading(self._engine) as connection:
            for row in connection.execute(query.order_by(DayRow.day)):
                standing = standing.after(row.samples, row.seconds / 3600, row.day, gave=bool(row.gave))
        return standing

    def devices(self, most: int, now: float | None = None) -> list[DeviceCount]:
        """At most so many kinds of devices, those that contributed most first."""
        samples = whole_sum(SessionRow.samples)
        seconds = func.nullif(func.sum(SessionRow.seconds), 0.0)
        query = (
            select(
                SessionRow.device,
                *_counts(moment(now)),
                func.coalesce(cast(samples, Double) / seconds, 0.0).label("samples_per_second"),
            )
            .group_by(SessionRow.device)
            .order_by(samples.desc(), SessionRow.device)
            .limit(most)
        )
        return ask(self._engine, query, DeviceCount)

    def kinds(self) -> int:
        """How many kinds of devices there are."""
        with reading(self._engine) as connection:
            return connection.execute(select(func.count(SessionRow.device.distinct()))).scalar_one()

    def hours(self) -> dict[str, float]:
        """How long sessions on devices of one name were present, in hours, the longest first."""
        seconds = func.coalesce(func.sum(SessionRow.seconds), 0.0)
        query = select(SessionRow.device, seconds).group_by(SessionRow.device)
        with reading(self._engine) as connection:
            rows = connection.execute(query.order_by(seconds.desc(), SessionRow.device)).all()
        return {device: time / 3600 for device, time in rows}

    def modes(self, now: float | None = None) -> dict[bool, ModeCount]:
        """Sessions in client mode (True), which accept no connections, and the others."""
        query = select(SessionRow.client_mode, *_counts(moment(now))).group_by(SessionRow.client_mode)
        found = {mode: ModeCount(sessions=0, present=0, samples=0) for mode in (False, True)}
        with reading(self._engine) as connection:
            return found | {row.client_mode: ModeCount.model_validate(row) for row in connection.execute(query)}

    def countries(self) -> list[CountryCount]:
        """The countries of users who gave theirs, those with most users first."""
        people = func.count(SessionRow.user_name.distinct()).label("people")
        query: Any = select(SessionRow.country, people).where(SessionRow.country.is_not(None))
        query = query.group_by(SessionRow.country).order_by(people.desc(), SessionRow.country)
        return ask(self._engine, query, CountryCount)


def _counts(now: float) -> tuple[Any, ...]:
    """Of sessions: how many, how many of them present, and their samples."""
    return (
        func.count().label("sessions"),
        func.count().filter(is_present(now)).label("present"),
        whole_sum(SessionRow.samples).label("samples"),
    )
