"""The ledger: steps, sessions and contributions, each contribution counted exactly once.

Peers repeat their last few contributions in every report, reports come late or twice, and a coordinator
that was restarted reads them again. The database settles it: a contribution is keyed by session and
global step, and only the first one with a key is kept.
"""

import contextlib
import logging
import math
import time
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from sqlalchemy import BigInteger, Connection, Engine, Subquery, cast, func, select

from coordinator.ledger_database import INSERTS, LedgerError, connect, ledger_errors
from coordinator.ledger_schema import (
    Contribution,
    ContributionRow,
    EvaluationRecord,
    EvaluationRow,
    Leader,
    Progress,
    SessionReport,
    SessionRow,
    SessionSummary,
    StepSummary,
    Totals,
)

__all__ = [
    "Contribution",
    "EvaluationRecord",
    "Leader",
    "Ledger",
    "LedgerError",
    "Progress",
    "SessionReport",
    "SessionSummary",
    "StepSummary",
    "Totals",
    "open_ledger",
]

logger = logging.getLogger(__name__)

PRESENT_SECONDS = 120.0  # a session silent for longer is gone: its record has expired by then
_LARGEST = 2**40  # above any honest count, and eight million of them still add up within 64 bits


def open_ledger(url: str, state_folder: Path, *, patience: float = 10.0) -> "Ledger":
    """Open the ledger at a database URL, and create its tables if there are none.

    Args:
        url: `sqlite:///ledger.db` (a relative path lies in `state_folder`) or `postgresql://...`.
        patience: seconds to wait for a locked or distant database before giving up.

    Raises:
        LedgerError: one line about what is wrong with the database.
    """
    return Ledger(connect(url, state_folder, patience))


class Ledger:
    """What the run has done and who did it. Threads may share a ledger; every method is one transaction.

    All methods raise `LedgerError` if the database fails. A failed `record` loses nothing: peers repeat
    their contributions, and those that were counted are not counted again.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._insert: Any = INSERTS[engine.dialect.name]  # both have ON CONFLICT, under the same names

    def record(self, reports: Iterable[SessionReport]) -> None:
        """Keep the newest report of each session, and contributions that were not counted before.

        A session belongs to the user and the peer that reported it first. Reports by others under
        its name are ignored, and so is one with impossible values.
        """
        plausible = []
        for report in reports:
            if _is_plausible(report):
                plausible.append(report)
            else:
                logger.warning("ignored an impossible report of peer %.64r", report.peer_id)
        with self._transaction() as connection:
            for report in plausible:
                self._record_one(connection, report)

    def record_evaluation(
        self, step: int, loss: float, *, sentence_order_loss: float, samples: int, now: float | None = None
    ) -> None:
        """Keep the held-out losses of a global step; a second evaluation of a step replaces the first."""
        if not (math.isfinite(loss) and math.isfinite(sentence_order_loss)):
            logger.warning("the held-out loss at step %d is not a number and was not recorded", step)
            return
        row = {
            "loss": loss,
            "sentence_order_loss": sentence_order_loss,
            "samples": samples,
            "time": _clock(now),
        }
        insert = self._insert(EvaluationRow).values(step=step, **row)
        with self._transaction() as connection:
            connection.execute(insert.on_conflict_do_update(index_elements=["step"], set_=row))

    def progress(self, now: float | None = None) -> Progress:
        """Where the run is, at unix time `now` (by default the clock's)."""
        sums = select(
            func.coalesce(func.max(ContributionRow.step), 0),
            _sum(ContributionRow.samples),
            _sum(ContributionRow.tokens),
        )
        present = select(
            func.count(),
            func.count(SessionRow.user_name.distinct()),
            func.coalesce(func.sum(SessionRow.samples_per_second), 0.0),
        ).where(_present(_clock(now)))
        newest = select(EvaluationRow.step, EvaluationRow.loss).order_by(EvaluationRow.step.desc()).limit(1)
        with self._transaction() as connection:
            step, samples, tokens = connection.execute(sums).one()
            summary = connection.execute(_steps().where(ContributionRow.step == step)).one_or_none()
            evaluated = connection.execute(newest).one_or_none()
            sessions, users, speed = connection.execute(present).one()
        return Progress(
            step=step,
            samples=samples,
            tokens=tokens,
            loss=summary.loss if summary else None,
            eval_step=evaluated.step if evaluated else None,
            eval_loss=evaluated.loss if evaluated else None,
            sessions_present=sessions,
            users_present=users,
            samples_per_second=speed,
        )

    def steps(self, since: int = 0) -> list[StepSummary]:
        """All global steps from `since` on, in order."""
        query = _steps().where(ContributionRow.step >= since).order_by(ContributionRow.step)
        with self._transaction() as connection:
            return [StepSummary(*row) for row in connection.execute(query)]

    def leaderboard(self, now: float | None = None) -> list[Leader]:
        """All users, the one with most samples first."""
        counted = _counted_by_session()
        samples = _sum(counted.c.samples)
        query = (
            select(
                SessionRow.user_name,
                samples,
                _sum(counted.c.tokens),
                func.count(),
                func.count().filter(_present(_clock(now))),
                func.min(SessionRow.started),
                func.max(SessionRow.last_seen),
            )
            .outerjoin(counted, counted.c.session_id == SessionRow.session_id)
            .group_by(SessionRow.user_name)
            .order_by(samples.desc(), SessionRow.user_name)
        )
        with self._transaction() as connection:
            return [Leader(*row) for row in connection.execute(query)]

    def sessions(self, now: float | None = None) -> list[SessionSummary]:
        """All sessions, in the order in which they started."""
        counted = _counted_by_session()
        query: Any = (
            select(
                *SessionRow.__table__.columns.values(),
                func.coalesce(counted.c.samples, 0),
                func.coalesce(counted.c.tokens, 0),
                _present(_clock(now)),
            )
            .outerjoin(counted, counted.c.session_id == SessionRow.session_id)
            .order_by(SessionRow.started, SessionRow.session_id)
        )
        with self._transaction() as connection:
            return [SessionSummary(*row) for row in connection.execute(query)]

    def evaluations(self) -> list[EvaluationRecord]:
        """All held-out evaluations, by global step."""
        query = select(*EvaluationRow.__table__.columns.values()).order_by(EvaluationRow.step)
        with self._transaction() as connection:
            return [EvaluationRecord(*row) for row in connection.execute(query)]

    def totals(self) -> Totals:
        """The whole run so far."""
        work = select(
            func.count(ContributionRow.step.distinct()),
            _sum(ContributionRow.samples),
            _sum(ContributionRow.tokens),
        )
        seconds = SessionRow.last_seen - SessionRow.started
        people = select(
            func.count(SessionRow.user_name.distinct()),
            func.count(),
            _sum(SessionRow.averaging_rounds),
            _sum(SessionRow.averaging_failures),
            func.coalesce(func.sum(SessionRow.data_wait_fraction * seconds) / func.nullif(func.sum(seconds), 0), 0.0),
        )
        with self._transaction() as connection:
            steps, samples, tokens = connection.execute(work).one()
            users, sessions, rounds, failures, waited = connection.execute(people).one()
        return Totals(steps, samples, tokens, users, sessions, rounds, failures, waited)

    def close(self) -> None:
        """Let go of the database. The ledger can be used again; it reconnects."""
        self._engine.dispose()

    def _record_one(self, connection: Connection, report: SessionReport) -> None:
        row = asdict(report)
        contributions = [one for one in row.pop("contributions") if one["samples"]]
        row["user_name"], row["has_left"] = row.pop("user"), row.pop("left")
        insert = self._insert(SessionRow).values(row)
        old, new = SessionRow, insert.excluded
        same_owner = (old.user_name == new.user_name) & (old.peer_id == new.peer_id)
        connection.execute(
            insert.on_conflict_do_update(
                index_elements=["session_id"],
                set_={name: new[name] for name in row if name != "session_id"},
                where=same_owner & (old.last_seen <= new.last_seen),
            )
        )
        owner = select(old.user_name, old.peer_id).where(old.session_id == report.session_id)
        if tuple(connection.execute(owner).one()) != (report.user, report.peer_id):
            logger.warning("ignored peer %s, which claims the session of another", report.peer_id)
        elif contributions:
            connection.execute(
                self._insert(ContributionRow).on_conflict_do_nothing(),
                [{"session_id": report.session_id, **one} for one in contributions],
            )

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[Connection]:
        with ledger_errors(self._engine.url), self._engine.begin() as connection:
            yield connection


def _sum(column: Any) -> Any:
    """A sum of whole numbers as a whole number; PostgreSQL alone would widen it to a decimal."""
    return cast(func.coalesce(func.sum(column), 0), BigInteger)


def _steps() -> Any:
    """One row for each global step: step, samples, tokens, peers, loss."""
    weighted_loss = func.sum(ContributionRow.loss * ContributionRow.samples)
    return select(
        ContributionRow.step,
        _sum(ContributionRow.samples),
        _sum(ContributionRow.tokens),
        func.count(),
        (weighted_loss / func.sum(ContributionRow.samples)).label("loss"),
    ).group_by(ContributionRow.step)


def _counted_by_session() -> Subquery:
    return (
        select(
            ContributionRow.session_id,
            _sum(ContributionRow.samples).label("samples"),
            _sum(ContributionRow.tokens).label("tokens"),
        )
        .group_by(ContributionRow.session_id)
        .subquery()
    )


def _present(now: float) -> Any:
    """The condition that a session reported recently, not in the far future, and did not say goodbye."""
    recently = SessionRow.last_seen.between(now - PRESENT_SECONDS, now + PRESENT_SECONDS)
    return recently & ~SessionRow.has_left


def _is_plausible(report: SessionReport) -> bool:
    """Whether a database can hold the report and sums stay true with it.

    Record validators check types; a signed infinity or a number beyond 64 bits passes them.
    """
    contributions = report.contributions
    counts = [report.step, report.averaging_rounds, report.averaging_failures]
    counts += [count for one in contributions for count in (one.step, one.samples, one.tokens)]
    measures = [report.started, report.last_seen, report.samples_per_second, report.data_wait_fraction]
    measures += [one.loss for one in contributions]
    words = [report.session_id, report.user, report.peer_id, report.device]
    return (
        all(0 <= count <= _LARGEST for count in counts)
        and all(math.isfinite(measure) and abs(measure) <= _LARGEST for measure in measures)
        # control characters and lone surrogates; joiners are part of names in many scripts
        and not any(unicodedata.category(letter) in ("Cc", "Cs") for word in words for letter in word)
    )


def _clock(now: float | None) -> float:
    return time.time() if now is None else now
