"""Queries about users and their devices: days and sessions of a user, devices, networks and countries of all."""

from typing import Any

from sqlalchemy import Double, Engine, cast, func, select

from coordinator.ledger.answers import CountryCount, DeviceCount, ModeCount, SessionSummary, UserDay
from coordinator.ledger.queries import ask, is_present, moment, session_rows, share, whole_sum
from coordinator.ledger.storage.database import reading
from coordinator.ledger.tables import DayRow, SessionRow


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

    def days(self, user: str) -> list[UserDay]:
        """The days on which something was counted for a user, in order."""
        own = select(DayRow).where(DayRow.user_name == user).subquery()
        hours = (own.c.seconds / 3600).label("hours")
        of_all = share(own.c.samples, func.sum(DayRow.samples)).label("share")
        query = (
            select(own.c.day, own.c.samples, own.c.tokens, hours, of_all)
            .join(DayRow, DayRow.day == own.c.day)
            .group_by(own.c.day, own.c.samples, own.c.tokens, own.c.seconds)
            .order_by(own.c.day)
        )
        return ask(self._engine, query, UserDay)

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
