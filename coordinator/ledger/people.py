"""Who takes part and on what: the days and sessions of a user, devices, networks and countries of everybody."""

import datetime
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Double, Engine, cast, func, select

from coordinator.ledger.queries import SESSION_COLUMNS, is_present, moment, whole_sum
from coordinator.ledger.schema import DayRow, SessionRow, SessionSummary
from coordinator.ledger.storage.database import reading


@dataclass(frozen=True)
class UserDay:
    """What was counted for a user on a day (UTC); `share` is the fraction of all users' samples of that day."""

    day: datetime.date
    samples: int
    tokens: int
    hours: float
    share: float


@dataclass(frozen=True)
class DeviceCount:
    """Sessions on devices of one name; `samples_per_second` is what one of them brought, of the time it was there."""

    device: str
    sessions: int
    present: int
    samples: int
    samples_per_second: float


@dataclass(frozen=True)
class ModeCount:
    """Sessions that accept no connections (`client_mode`), or those that do."""

    client_mode: bool
    sessions: int
    present: int
    samples: int


@dataclass(frozen=True)
class CountryCount:
    """How many users said that they are in a country, by its code in ISO 3166."""

    country: str
    people: int


class Census:
    """The part of a ledger that is about people and machines; every method may raise `LedgerError`."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def newest_sessions(self, most: int, user: str | None = None, now: float | None = None) -> list[SessionSummary]:
        """At most so many sessions, of one user or of all; the one that was heard of last comes first."""
        query: Any = select(*SESSION_COLUMNS, is_present(moment(now)))
        if user is not None:
            query = query.where(SessionRow.user_name == user)
        query = query.order_by(SessionRow.last_seen.desc(), SessionRow.session_id).limit(most)
        with reading(self._engine) as connection:
            return [SessionSummary(*row) for row in connection.execute(query)]

    def days(self, user: str) -> list[UserDay]:
        """The days on which something was counted for a user, in order."""
        own = select(DayRow).where(DayRow.user_name == user).subquery()
        everybody = whole_sum(DayRow.samples)
        query = (
            select(own.c.day, own.c.samples, own.c.tokens, own.c.seconds, everybody)
            .join(DayRow, DayRow.day == own.c.day)
            .group_by(own.c.day, own.c.samples, own.c.tokens, own.c.seconds)
            .order_by(own.c.day)
        )
        with reading(self._engine) as connection:
            return [
                UserDay(day, samples, tokens, seconds / 3600, samples / everything if everything else 0.0)
                for day, samples, tokens, seconds, everything in connection.execute(query)
            ]

    def devices(self, most: int, now: float | None = None) -> list[DeviceCount]:
        """At most so many kinds of devices, the one that brought most first."""
        samples = whole_sum(SessionRow.samples)
        seconds = func.nullif(func.sum(SessionRow.seconds), 0.0)
        query = (
            select(
                SessionRow.device,
                func.count(),
                func.count().filter(is_present(moment(now))),
                samples,
                func.coalesce(cast(samples, Double) / seconds, 0.0),
            )
            .group_by(SessionRow.device)
            .order_by(samples.desc(), SessionRow.device)
            .limit(most)
        )
        with reading(self._engine) as connection:
            return [DeviceCount(*row) for row in connection.execute(query)]

    def hours(self) -> list[tuple[str, float]]:
        """How long sessions on devices of one name were there, in hours, the longest first."""
        seconds = func.coalesce(func.sum(SessionRow.seconds), 0.0)
        query = select(SessionRow.device, seconds).group_by(SessionRow.device)
        with reading(self._engine) as connection:
            rows = connection.execute(query.order_by(seconds.desc(), SessionRow.device)).all()
        return [(device, time / 3600) for device, time in rows]

    def modes(self, now: float | None = None) -> list[ModeCount]:
        """Sessions in client mode and others, as far as there are any."""
        query = select(
            SessionRow.client_mode,
            func.count(),
            func.count().filter(is_present(moment(now))),
            whole_sum(SessionRow.samples),
        ).group_by(SessionRow.client_mode)
        with reading(self._engine) as connection:
            return [ModeCount(*row) for row in connection.execute(query)]

    def countries(self) -> list[CountryCount]:
        """The countries of those who said theirs, the one with most people first."""
        people = func.count(SessionRow.user_name.distinct())
        query: Any = select(SessionRow.country, people).where(SessionRow.country.is_not(None))
        query = query.group_by(SessionRow.country).order_by(people.desc(), SessionRow.country)
        with reading(self._engine) as connection:
            return [CountryCount(*row) for row in connection.execute(query)]
