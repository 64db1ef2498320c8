"""The run over time: a row a minute, the curve of global steps, and what the model filled into fixed sentences."""

import logging
import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from sqlalchemy import JSON, Double, Engine, cast, func, select
from sqlalchemy.orm import Mapped, mapped_column

from coordinator.ledger_database import INSERTS, ledger_errors, reading, writing
from coordinator.ledger_questions import clock, is_present, whole_sum
from coordinator.ledger_schema import Base, SessionRow, StepRow

logger = logging.getLogger(__name__)

MINUTE = 60  # seconds

# What the ledger keeps


class MinuteRow(Base):
    """What the run was like in a minute; `time` is its beginning. The columns are those of a `Minute`."""

    __tablename__ = "minutes"
    __table_args__ = ({"sqlite_with_rowid": False},)
    time: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    step: Mapped[int]
    sessions: Mapped[int]
    users: Mapped[int]
    samples_per_second: Mapped[float]
    data_wait_fraction: Mapped[float]
    averaging_seconds: Mapped[float | None]
    users_ever: Mapped[int]
    sessions_ever: Mapped[int]
    samples: Mapped[int]
    tokens: Mapped[int]
    seconds: Mapped[float]
    averaging_rounds: Mapped[int]
    averaging_failures: Mapped[int]


class FillRow(Base):
    """What the model of a global step put for the masks of fixed sentences; `sentences` are `FilledSentence`s."""

    __tablename__ = "fills"
    step: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    time: Mapped[float]
    sentences: Mapped[list[Any]] = mapped_column(JSON)


# What it is told and answers


@dataclass(frozen=True)
class Minute:
    """What the run was like in a minute, `time` (unix seconds) being its beginning.

    First what was found in it: the global step, sessions present and their users, their speed, how much of their time
    they waited for data, and the mean seconds of the coordinator's rounds of averaging that ended, None without any.
    The rest are sums since the run began; `seconds` are those of presence, rounds are summed over sessions.
    """

    time: int
    step: int
    sessions: int
    users: int
    samples_per_second: float
    data_wait_fraction: float
    averaging_seconds: float | None
    users_ever: int
    sessions_ever: int
    samples: int
    tokens: int
    seconds: float
    averaging_rounds: int
    averaging_failures: int


@dataclass(frozen=True)
class Span:
    """Minutes of the run, one after the other: when the last of them began (unix seconds), and means over them.

    Tokens per second and rounds of averaging are counted from the end of the span before, also where nobody looked
    for a while in between.
    """

    time: int
    sessions: float
    users: float
    samples_per_second: float
    tokens_per_second: float
    data_wait_fraction: float
    averaging_seconds: float | None
    averaging_rounds: int
    averaging_failures: int


@dataclass(frozen=True)
class StepBucket:
    """Successive global steps: the last of them and when it was counted; means over them, the loss over samples."""

    step: int
    time: float | None
    samples: float
    tokens: float
    peers: float
    loss: float


@dataclass(frozen=True)
class FilledSentence:
    """A sentence with `[MASK]` in it, and the likeliest tokens for it with their probabilities, best first."""

    text: str
    guesses: tuple[tuple[str, float], ...]


@dataclass(frozen=True)
class Fills:
    """What the model of a global step put for the masks, at a unix time in seconds."""

    step: int
    time: float
    sentences: tuple[FilledSentence, ...]


class History:
    """The part of a ledger that is about time; every method is one transaction and may raise `LedgerError`."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def note_minute(self, step: int, *, averaging_seconds: float | None, now: float | None = None) -> None:
        """Keep what the run is like now; a later look in the same minute replaces an earlier one."""
        now = clock(now)
        present = select(
            func.count(),
            func.count(SessionRow.user_name.distinct()),
            func.coalesce(func.sum(SessionRow.samples_per_second), 0.0),
            func.coalesce(func.avg(SessionRow.data_wait_fraction), 0.0),
        ).where(is_present(now))
        ever = select(
            func.count(SessionRow.user_name.distinct()),
            func.count(),
            whole_sum(SessionRow.samples),
            whole_sum(SessionRow.tokens),
            func.coalesce(func.sum(SessionRow.seconds), 0.0),
            whole_sum(SessionRow.averaging_rounds),
            whole_sum(SessionRow.averaging_failures),
        )
        with ledger_errors(self._engine.url), writing(self._engine) as connection:
            here: Any = connection.execute(present).one()
            sums: Any = connection.execute(ever).one()
            figures = [int(now) // MINUTE * MINUTE, step, *here, averaging_seconds, *sums]
            row = asdict(Minute(*figures))
            insert = INSERTS[connection.dialect.name](MinuteRow).values(row)
            connection.execute(insert.on_conflict_do_update(index_elements=["time"], set_=row))

    def minute_after(self, time: float) -> Minute | None:
        """The first minute that began at or after a unix time and was looked at, if there is one."""
        query = select(*_MINUTE_COLUMNS).where(MinuteRow.time >= time).order_by(MinuteRow.time).limit(1)
        with reading(self._engine) as connection:
            row = connection.execute(query).one_or_none()
        return Minute(*row) if row else None

    def minutes(self, points: int) -> list[Span]:
        """The whole run in at most so many spans of equal length; those in which nobody looked are left out."""
        ends = select(func.min(MinuteRow.time), func.max(MinuteRow.time))
        with reading(self._engine) as connection:
            found: Any = connection.execute(ends).one()
            first, last = found
            if first is None:
                return []
            width = _width(first // MINUTE, last // MINUTE, points)
            span = (MinuteRow.time - first) // MINUTE // width
            query = select(*_MEANS, *(func.max(one) for one in _SUMS)).group_by(span).order_by(span)
            rows = connection.execute(query).all()
            began = connection.execute(select(*_SUMS).where(MinuteRow.time == first)).one()
        return _spans(began, rows)

    def steps(self, points: int) -> list[StepBucket]:
        """The whole run in at most so many buckets of successive global steps."""
        ends = select(func.min(StepRow.step), func.max(StepRow.step))
        with reading(self._engine) as connection:
            found: Any = connection.execute(ends).one()
            first, last = found
            if first is None:
                return []
            bucket = (StepRow.step - first) // _width(first, last, points)
            query = select(
                func.max(StepRow.step),
                func.max(StepRow.time),
                _mean(StepRow.samples),
                _mean(StepRow.tokens),
                _mean(StepRow.peers),
                func.sum(StepRow.loss_sum) / func.sum(StepRow.samples),
            )
            return [StepBucket(*row) for row in connection.execute(query.group_by(bucket).order_by(bucket))]

    def started(self) -> float | None:
        """When the first global step was counted; None before it, and where an older program counted it."""
        with reading(self._engine) as connection:
            return connection.scalar(select(StepRow.time).order_by(StepRow.step).limit(1))

    def steps_counted_since(self, time: float) -> int:
        """How many global steps were first counted after a unix time."""
        with reading(self._engine) as connection:
            return connection.scalar(select(func.count()).where(StepRow.time > time)) or 0

    def record_fills(self, step: int, sentences: Sequence[FilledSentence], now: float | None = None) -> None:
        """Keep what the model of a global step put for the masks; a second time replaces the first."""
        if not all(math.isfinite(probability) for one in sentences for _, probability in one.guesses):
            logger.warning("what the model of step %d puts for masks is not a number and was not recorded", step)
            return
        row = {"time": clock(now), "sentences": [asdict(one) for one in sentences]}
        insert = INSERTS[self._engine.dialect.name](FillRow).values(step=step, **row)
        with ledger_errors(self._engine.url), writing(self._engine) as connection:
            connection.execute(insert.on_conflict_do_update(index_elements=["step"], set_=row))

    def fills(self, points: int) -> list[Fills]:
        """What the models put for the masks, oldest first: at most so many, evenly chosen, the newest among them."""
        with reading(self._engine) as connection:
            steps = list(connection.scalars(select(FillRow.step).order_by(FillRow.step)))
            query = select(FillRow.step, FillRow.time, FillRow.sentences).where(FillRow.step.in_(spread(steps, points)))
            rows = connection.execute(query.order_by(FillRow.step)).all()
        return [Fills(step, time, tuple(_sentence(one) for one in sentences)) for step, time, sentences in rows]


def spread(items: Sequence[Any], points: int) -> list[Any]:
    """At most so many of the items, evenly chosen, the first and the last among them."""
    if len(items) <= points:
        return list(items)
    return [items[round(number * (len(items) - 1) / (points - 1))] for number in range(points)]


def _spans(began: Sequence[Any], rows: Iterable[Sequence[Any]]) -> list[Span]:
    """Spans from rows of `_MEANS` and `_SUMS` at the end of each; `began` are the sums where the first one begins."""
    found, before = [], began
    for row in rows:
        sessions, users, speed, waited, averaging, *sums = row
        seconds, tokens, rounds, failures = (now - then for now, then in zip(sums, before, strict=True))
        found.append(
            Span(
                time=sums[0],
                sessions=sessions,
                users=users,
                samples_per_second=speed,
                tokens_per_second=tokens / seconds if seconds else 0.0,
                data_wait_fraction=waited,
                averaging_seconds=averaging,
                averaging_rounds=rounds,
                averaging_failures=failures,
            )
        )
        before = sums
    return found


def _width(first: int, last: int, points: int) -> int:
    """How many of the numbers from `first` to `last` go into one of at most so many buckets."""
    return (last - first) // points + 1


def _mean(column: Any) -> Any:
    """A mean of whole numbers as a float; PostgreSQL would make a decimal of it."""
    return cast(func.sum(column), Double) / func.count()


def _sentence(stored: dict[str, Any]) -> FilledSentence:
    return FilledSentence(stored["text"], tuple((token, probability) for token, probability in stored["guesses"]))


_MINUTE_COLUMNS = [getattr(MinuteRow, name) for name in Minute.__dataclass_fields__]
_MEANS = [
    _mean(MinuteRow.sessions),
    _mean(MinuteRow.users),
    func.avg(MinuteRow.samples_per_second),
    func.avg(MinuteRow.data_wait_fraction),
    func.avg(MinuteRow.averaging_seconds),
]
_SUMS: list[Any] = [MinuteRow.time, MinuteRow.tokens, MinuteRow.averaging_rounds, MinuteRow.averaging_failures]
