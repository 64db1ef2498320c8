"""The ledger: steps, sessions, and who brought what, each contribution counted exactly once.

Who brought what is in the headers of the log. The ledger knows up to which place in the log on the disk they are
entered, and a header has one row for ever: its members are credited in the transaction that inserts it and moves the
place. Only sums are kept, so that questions are answered from a few rows.
"""

import datetime
import logging
import math
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, func, select, update

from averaging.log.log_file import Place
from coordinator.ledger.bulk_writes import sessions_as_they_stand, write_entry, write_place
from coordinator.ledger.history import History
from coordinator.ledger.ingest import PRESENT_SECONDS, gather
from coordinator.ledger.people import Census
from coordinator.ledger.queries import SESSION_COLUMNS, is_present, leaders, leaders_since, moment, whole_sum
from coordinator.ledger.rounds import RoundBook
from coordinator.ledger.schema import (
    Contribution,
    EvaluationRecord,
    EvaluationRow,
    Leader,
    PlaceRow,
    Progress,
    SessionReport,
    SessionRow,
    SessionSummary,
    StepRow,
    StepSummary,
    Totals,
)
from coordinator.ledger.storage.backup import back_up, put_back
from coordinator.ledger.storage.database import INSERTS, LedgerError, connect, ledger_errors, reading, writing
from coordinator.ledger.storage.shared_lock import door_of
from coordinator.ledger.storage.upgrade import upgrade

__all__ = [
    "PRESENT_SECONDS",
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


def open_ledger(url: str, state_folder: Path, *, patience: float = 10.0) -> "Ledger":
    """Open the ledger at a database URL; create its tables, or bring those of an older Sahaj up to date.

    Args:
        url: `sqlite:///ledger.db` (a relative path lies in `state_folder`) or `postgresql://...`.
        patience: seconds to wait for a locked or distant database before giving up.

    Raises:
        LedgerError: one line about what is wrong with the database.
    """
    return Ledger(connect(url, state_folder, patience))


class Ledger:
    """What the run has done and who did it. Threads may share a ledger; every method is one transaction.

    All methods raise `LedgerError` if the database fails. A failed `record` has changed nothing. `history` is the run
    over time, `census` is about people and their machines, `rounds` about averaging as the coordinator saw it.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.history, self.census, self.rounds = History(engine), Census(engine), RoundBook(engine)
        self._written: dict[str, SessionReport] = {}  # the newest reports that are in the ledger, by session

    def record(
        self, reports: Iterable[SessionReport], now: float | None = None, read_up_to: Place | None = None
    ) -> set[str]:
        """Keep the newest report of each session, and what was not counted before: all members of a header at once.

        Returns the digests of headers that were not in the ledger before.

        A session belongs to the user and the peer that reported it first. Reports by others under
        its name are ignored, and so is one with impossible values.

        Args:
            now: unix time at which the reports were read, by default the clock's: contributions count for that day.
            read_up_to: where the headers end in the log on the disk that the contributions are from.
        """
        reports, now, written, new = list(reports), moment(now), self._written, set[str]()
        changed = [report for report in reports if written.get(report.session_id) != report]
        if changed or read_up_to is not None:
            with writing(self._engine) as connection:
                standing = sessions_as_they_stand(connection, (report.session_id for report in changed))
                entry = gather(changed, standing, now)
                new = write_entry(connection, entry, now)
                if read_up_to is not None:
                    write_place(connection, read_up_to)
            written = written | entry.accepted
        # a report that has not changed need not be written again; only sessions that are still spoken of are remembered
        read = {report.session_id for report in reports}
        self._written = {name: report for name, report in written.items() if name in read}
        return new

    def place(self) -> Place | None:
        """Up to where the headers of the log on the disk are entered."""
        with reading(self._engine) as connection:
            row = connection.execute(select(PlaceRow.start, PlaceRow.digest)).one_or_none()
        return Place(*row) if row else None

    def known_sessions(self, names: Collection[str]) -> set[str]:
        """Those of them that have a row."""
        with reading(self._engine) as connection:
            return set(sessions_as_they_stand(connection, names))

    def record_evaluation(
        self,
        step: int,
        loss: float,
        *,
        sentence_order_loss: float,
        samples: int,
        sentence_order_accuracy: float | None = None,
        unigram_loss: float | None = None,
        now: float | None = None,
    ) -> None:
        """Keep the held-out losses of a global step; a second evaluation of a step replaces the first."""
        if not (math.isfinite(loss) and math.isfinite(sentence_order_loss)):
            logger.warning("the held-out loss at step %d is not a number and was not recorded", step)
            return
        row = {
            "loss": loss,
            "sentence_order_loss": sentence_order_loss,
            "samples": samples,
            "time": moment(now),
            "sentence_order_accuracy": sentence_order_accuracy,
            "unigram_loss": unigram_loss,
        }
        insert = INSERTS[self._engine.dialect.name](EvaluationRow).values(step=step, **row)
        with writing(self._engine) as connection:
            connection.execute(insert.on_conflict_do_update(index_elements=["step"], set_=row))

    def record_unigram_loss(self, loss: float, since: float) -> None:
        """Put the unigram loss beside the evaluations since a unix time that were recorded before it was known."""
        unknown = EvaluationRow.unigram_loss.is_(None) & (EvaluationRow.time >= since)
        with writing(self._engine) as connection:
            connection.execute(update(EvaluationRow).where(unknown).values(unigram_loss=loss))

    def progress(self, now: float | None = None) -> Progress:
        """Where the run is, at unix time `now` (by default the clock's)."""
        last = _steps().order_by(StepRow.step.desc()).limit(1)
        sums = select(whole_sum(SessionRow.samples), whole_sum(SessionRow.tokens))
        present = select(
            func.count(),
            func.count(SessionRow.user_name.distinct()),
            func.coalesce(func.sum(SessionRow.samples_per_second), 0.0),
        ).where(is_present(moment(now)))
        scores = select(EvaluationRow.step, EvaluationRow.loss, EvaluationRow.unigram_loss)
        newest = scores.order_by(EvaluationRow.step.desc()).limit(1)
        with reading(self._engine) as connection:
            samples, tokens = connection.execute(sums).one()
            summary = connection.execute(last).one_or_none()
            evaluated = connection.execute(newest).one_or_none()
            sessions, users, speed = connection.execute(present).one()
        return Progress(
            step=summary.step if summary else 0,
            samples=samples,
            tokens=tokens,
            loss=summary.loss if summary else None,
            eval_step=evaluated.step if evaluated else None,
            eval_loss=evaluated.loss if evaluated else None,
            unigram_loss=evaluated.unigram_loss if evaluated else None,
            sessions_present=sessions,
            users_present=users,
            samples_per_second=speed,
        )

    def steps(self, since: int = 0) -> list[StepSummary]:
        """All global steps from `since` on, in order."""
        query = _steps().where(StepRow.step >= since).order_by(StepRow.step)
        with reading(self._engine) as connection:
            return [StepSummary(*row) for row in connection.execute(query)]

    def leaderboard(self, now: float | None = None, since: datetime.date | None = None) -> list[Leader]:
        """All users, the one with most samples first; with `since`, what was counted from that day (UTC) on.

        `first_seen` is the start of the user's first session ever. With `since` the sessions are those that were
        heard of from that day on, and users of whom nothing was are left out.
        """
        query = leaders(moment(now)) if since is None else leaders_since(since, moment(now))
        with reading(self._engine) as connection:
            rows = connection.execute(query.order_by(query.selected_columns[1].desc(), SessionRow.user_name)).all()
        everything = sum(samples for _, samples, *_ in rows)
        return [
            Leader(user, samples, tokens, seconds / 3600, samples / everything if everything else 0.0, *rest)
            for user, samples, tokens, seconds, *rest in rows
        ]

    def sessions(self, now: float | None = None) -> list[SessionSummary]:
        """All sessions, in the order in which they started."""
        query: Any = select(*SESSION_COLUMNS, is_present(moment(now)))
        query = query.order_by(SessionRow.started, SessionRow.session_id)
        with reading(self._engine) as connection:
            return [SessionSummary(*row) for row in connection.execute(query)]

    def evaluations(self) -> list[EvaluationRecord]:
        """All held-out evaluations, by global step."""
        query = select(*EvaluationRow.__table__.columns.values()).order_by(EvaluationRow.step)
        with reading(self._engine) as connection:
            return [EvaluationRecord(*row) for row in connection.execute(query)]

    def totals(self) -> Totals:
        """The whole run so far."""
        steps = select(func.count()).select_from(StepRow)
        seconds = SessionRow.last_seen - SessionRow.started
        people = select(
            func.count(SessionRow.user_name.distinct()),
            func.count(),
            whole_sum(SessionRow.samples),
            whole_sum(SessionRow.tokens),
            whole_sum(SessionRow.averaging_rounds),
            whole_sum(SessionRow.averaging_failures),
            func.coalesce(func.sum(SessionRow.data_wait_fraction * seconds) / func.nullif(func.sum(seconds), 0), 0.0),
            func.coalesce(func.sum(SessionRow.seconds), 0.0) / 3600,
        )
        with reading(self._engine) as connection:
            count = connection.execute(steps).scalar_one()
            users, sessions, samples, tokens, rounds, failures, waited, hours = connection.execute(people).one()
        return Totals(count, samples, tokens, users, sessions, rounds, failures, waited, hours)

    def back_up(self) -> None:
        """Copy an SQLite ledger; raises `LedgerBroken` if a page of it cannot be read."""
        with ledger_errors(self._engine.url), door_of(self._engine).shared():
            back_up(self._engine)

    def put_back(self) -> str | None:
        """Go on from the copy, if there is one; returns what was done, for people."""
        with door_of(self._engine).alone():
            self.close()
            done = put_back(self._engine.url)
        if done is not None:
            with writing(self._engine) as connection:
                upgrade(connection)  # the copy may be older than the tables of this program
        return done

    def close(self) -> None:
        """Let go of the database. The ledger can be used again; it reconnects."""
        self._engine.dispose()
        self._written = {}


def _steps() -> Any:
    """One row for each global step: step, samples, tokens, peers, loss."""
    loss = (StepRow.loss_sum / StepRow.samples).label("loss")
    return select(StepRow.step, StepRow.samples, StepRow.tokens, StepRow.peers, loss)
