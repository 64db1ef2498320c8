"""The run over time: a row a minute, the curve of global steps, and what the model filled into fixed sentences."""

import logging
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from sqlalchemy import JSON, Engine, func, select
from sqlalchemy.orm import Mapped, mapped_column

from coordinator.ledger.curves import GrowingTable, Span, StepBucket, spans, step_buckets
from coordinator.ledger.queries import is_present, moment, whole_sum
from coordinator.ledger.schema import Base, EvaluationRecord, EvaluationRow, SessionRow, StepRow
from coordinator.ledger.storage.database import INSERTS, reading, writing

logger = logging.getLogger(__name__)

MINUTE = 60  # seconds
SETTLED_STEPS = 100  # global steps; what peers still report of older ones is too little to be seen in a curve

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
        self._minutes = GrowingTable(_CURVE_COLUMNS, again=MINUTE)
        self._steps = GrowingTable(_STEP_COLUMNS, again=SETTLED_STEPS)

    def note_minute(self, step: int, *, averaging_seconds: float | None, now: float | None = None) -> None:
        """Keep what the run is like now; a later look in the same minute replaces an earlier one."""
        now = moment(now)
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
        with writing(self._engine) as connection:
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
        with reading(self._engine) as connection:
            rows = self._minutes.read(connection)
        return spans(rows, points, MINUTE)

    def steps(self, points: int) -> list[StepBucket]:
        """The whole run in at most so many buckets of successive global steps."""
        with reading(self._engine) as connection:
            rows = self._steps.read(connection)
        return step_buckets(rows, points)

    def evaluations(self, points: int) -> list[EvaluationRecord]:
        """At most so many held-out evaluations by global step, evenly chosen, the newest among them."""
        with reading(self._engine) as connection:
            steps = list(connection.scalars(select(EvaluationRow.step).order_by(EvaluationRow.step)))
            query: Any = select(*EvaluationRow.__table__.columns.values()).order_by(EvaluationRow.step)
            query = query.where(EvaluationRow.step.in_(spread(steps, points)))
            return [EvaluationRecord(*row) for row in connection.execute(query)]

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
        row = {"time": moment(now), "sentences": [asdict(one) for one in sentences]}
        insert = INSERTS[self._engine.dialect.name](FillRow).values(step=step, **row)
        with writing(self._engine) as connection:
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


def _sentence(stored: dict[str, Any]) -> FilledSentence:
    return FilledSentence(stored["text"], tuple((token, probability) for token, probability in stored["guesses"]))


_MINUTE_COLUMNS = [getattr(MinuteRow, name) for name in Minute.__dataclass_fields__]
_CURVE_COLUMNS = [
    MinuteRow.time,
    MinuteRow.sessions,
    MinuteRow.users,
    MinuteRow.samples_per_second,
    MinuteRow.data_wait_fraction,
    MinuteRow.averaging_seconds,
    MinuteRow.tokens,
    MinuteRow.averaging_rounds,
    MinuteRow.averaging_failures,
]
_STEP_COLUMNS = [StepRow.step, StepRow.time, StepRow.samples, StepRow.tokens, StepRow.peers, StepRow.loss_sum]
