"""The run over time: a row a minute, the curve of global steps, and what the model filled into fixed sentences."""

import logging
import math
import statistics
from collections.abc import Callable, Sequence
from typing import Any

from sqlalchemy import Connection, Double, Engine, cast, func, select
from sqlalchemy.orm import Session

from coordinator.ledger.answers import EvaluationRecord, FilledSentence, Fills, Span, StepBucket
from coordinator.ledger.queries import T, is_present, moment, whole_sum
from coordinator.ledger.storage.database import reading, upsert, writing
from coordinator.ledger.tables import EvaluationRow, FillRow, MinuteRow, SessionRow, StepRow
from swarm import clock

logger = logging.getLogger(__name__)

MINUTE = 60  # seconds
_DATA_WAIT = func.coalesce(func.avg(SessionRow.data_wait_fraction).filter(~SessionRow.hosts_experts), 0.0)


class History:
    """The part of a ledger that is about time; every method is one transaction and may raise `LedgerError`."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def note_minute(self, *, averaging_seconds: float | None, now: float | None = None) -> None:
        """Write down the run as it is now; a second call in the same minute replaces the row of the first."""
        now = moment(now)
        present = select(
            func.count().label("sessions"),
            func.count(SessionRow.user_name.distinct()).label("users"),
            func.coalesce(func.sum(SessionRow.samples_per_second), 0.0).label("samples_per_second"),
            _DATA_WAIT.label("data_wait_fraction"),
        ).where(is_present(now))
        ever = select(
            func.count(SessionRow.user_name.distinct()).label("users_ever"),
            whole_sum(SessionRow.samples).label("samples"),
            whole_sum(SessionRow.tokens).label("tokens"),
            func.coalesce(func.sum(SessionRow.seconds), 0.0).label("seconds"),
            whole_sum(SessionRow.averaging_rounds).label("averaging_rounds"),
            whole_sum(SessionRow.averaging_failures).label("averaging_failures"),
        )
        row = {"time": int(now) // MINUTE * MINUTE, "averaging_seconds": averaging_seconds}
        with writing(self._engine) as connection:
            figures = [connection.execute(query).mappings().one() for query in (present, ever)]
            upsert(connection, MinuteRow, [row | dict(figures[0]) | dict(figures[1])])

    def data_wait(self, now: float | None = None) -> float:
        """Mean fraction of their time that the sessions present have waited for data; 0 without any."""
        with reading(self._engine) as connection:
            return float(connection.scalar(select(_DATA_WAIT).where(is_present(moment(now)))))

    def minute_before(self, time: float) -> MinuteRow | None:
        """The last row of a minute that began by a unix time, or else the first row, if there is one."""
        rows = select(MinuteRow).limit(1)
        before = rows.where(MinuteRow.time <= time).order_by(MinuteRow.time.desc())
        with reading(self._engine) as connection, Session(connection) as session:
            return session.scalar(before) or session.scalar(rows.order_by(MinuteRow.time))

    def minutes(self, points: int) -> list[Span]:
        """The whole run in at most so many spans of equal length; those without any row are left out."""
        sums = (MinuteRow.tokens, MinuteRow.averaging_rounds, MinuteRow.averaging_failures)
        means = {
            one.key: _mean(one)
            for one in (
                MinuteRow.sessions,
                MinuteRow.users,
                MinuteRow.samples_per_second,
                MinuteRow.data_wait_fraction,
                MinuteRow.averaging_seconds,
            )
        }
        first = select(MinuteRow.time, *sums).order_by(MinuteRow.time).limit(1)
        with reading(self._engine) as connection:
            before = connection.execute(first).one_or_none()
            rows = _curve(connection, MinuteRow.time, means, sums, points, unit=MINUTE)
        spans = []
        for row in rows:
            assert before is not None, "there are rows"
            changes = {one.key: getattr(row, one.key) - getattr(before, one.key) for one in sums}
            changes["tokens_per_second"] = changes["tokens"] / (row.time - before.time or 1)
            spans.append(Span.model_validate(dict(row._mapping) | changes))
            before = row
        return spans

    def steps(self, points: int) -> list[StepBucket]:
        """The whole run in at most so many buckets of successive global steps."""
        means = {one.key: _mean(one) for one in (StepRow.samples, StepRow.tokens, StepRow.peers)}
        means["loss"] = func.sum(StepRow.loss_sum) / func.sum(StepRow.samples)
        with reading(self._engine) as connection:
            rows = _curve(connection, StepRow.step, means, (StepRow.time,), points)
        return [StepBucket.model_validate(row) for row in rows]

    def evaluations(self, points: int) -> list[EvaluationRecord]:
        """At most so many held-out evaluations by global step, evenly chosen, the newest among them."""
        return self._spread(EvaluationRow, points, EvaluationRecord)

    def started(self) -> float | None:
        """When the first global step was counted; None before it."""
        with reading(self._engine) as connection:
            return connection.scalar(select(StepRow.time).order_by(StepRow.step).limit(1))

    def steps_counted_since(self, time: float) -> int:
        """How many global steps were first counted after a unix time."""
        with reading(self._engine) as connection:
            return connection.scalar(select(func.count()).where(StepRow.time > time)) or 0

    def record_fills(self, step: int, sentences: Sequence[FilledSentence], now: float | None = None) -> None:
        """Keep what the model of a global step predicted for the masks; a second call replaces the first."""
        if not all(math.isfinite(guess.probability) for one in sentences for guess in one.guesses):
            logger.warning("what the model of step %d predicts for masks is not a number and was not recorded", step)
            return
        row = {"step": step, "time": moment(now), "sentences": [one.model_dump() for one in sentences]}
        with writing(self._engine) as connection:
            upsert(connection, FillRow, [row])

    def fills(self, points: int) -> list[Fills]:
        """What the models predicted, oldest first: at most so many, evenly chosen, the newest among them."""
        return self._spread(FillRow, points, Fills)

    def _spread(self, kind: type[EvaluationRow] | type[FillRow], points: int, answer: type[T]) -> list[T]:
        """At most so many rows by global step, evenly chosen."""
        with reading(self._engine) as connection:
            steps = spread(list(connection.scalars(select(kind.step).order_by(kind.step))), points)
            rows = connection.execute(select(kind.__table__).where(kind.step.in_(steps)).order_by(kind.step)).all()
        return [answer.model_validate(row) for row in rows]


def spread(items: Sequence[Any], points: int) -> list[Any]:
    """At most so many of the items, evenly chosen, the first and the last among them."""
    if len(items) <= points:
        return list(items)
    return [items[round(number * (len(items) - 1) / (points - 1))] for number in range(points)]


def _curve(
    connection: Connection, key: Any, means: dict[str, Any], of_last: Sequence[Any], points: int, *, unit: int = 1
) -> Sequence[Any]:
    """A table in at most `points` groups of successive keys: the last key of each and `of_last` beside it, and means.

    Args:
        means: over a group, by the name in the result.
        unit: of which the keys are multiples.
    """
    first, last = connection.execute(select(func.min(key), func.max(key))).one()
    if first is None:
        return []
    width = ((last - first) // unit // points + 1) * unit
    columns = [mean.label(name) for name, mean in means.items()]
    groups = select(func.max(key).label("last"), *columns).group_by((key - first) // width).subquery()
    names = [groups.c[name] for name in means]
    return connection.execute(select(key, *names, *of_last).join(groups, groups.c.last == key).order_by(key)).all()


def _mean(column: Any) -> Any:
    return cast(func.avg(column), Double)


class MinuteRecorder:
    """Writes a row of the history once a minute. Not for several threads."""

    def __init__(self, history: History, clock: Callable[[], float] = clock.now):
        self._history, self._clock = history, clock
        self._rounds: list[float] = []  # seconds of each that ended since the last row
        self._noted: int | None = None  # the newest minute that has a row

    def round_ended(self, seconds: float) -> None:
        """A round in which the coordinator took part has ended."""
        self._rounds.append(seconds)

    def note(self) -> None:
        """Write a row if a new minute has begun.

        Raises:
            LedgerError: it could not be written; the next call tries again.
        """
        now = self._clock()
        minute = int(now) // MINUTE
        if minute == self._noted:
            return
        seconds = statistics.fmean(self._rounds) if self._rounds else None
        self._history.note_minute(averaging_seconds=seconds, now=now)
        self._noted, self._rounds = minute, []
