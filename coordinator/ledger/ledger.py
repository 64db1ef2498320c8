"""The ledger: steps, sessions, and who contributed what, each contribution counted exactly once.

Contributions are in the headers of the log. The ledger knows up to which place in the log on the disk they are
entered, and has one row for each header: its members are credited in the transaction that inserts that row and moves
the place. Only sums are kept, so that queries read few rows.
"""

import datetime
import logging
import math
from collections.abc import Collection, Iterable
from pathlib import Path

from sqlalchemy import Connection, Engine, func, select, update

from averaging.log.entry_file import Place
from coordinator.ledger.answers import EvaluationRecord, Leader, Progress, SessionSummary, StepSummary, Totals
from coordinator.ledger.history import History
from coordinator.ledger.ingest import Batch, Row, SessionReport, add_up, day_of, gather
from coordinator.ledger.queries import (
    PeopleQueries,
    ask,
    is_present,
    leaders,
    leaders_since,
    moment,
    session_rows,
    whole_sum,
)
from coordinator.ledger.rounds import RoundQueries
from coordinator.ledger.serving import ServingBound, count_served
from coordinator.ledger.storage.backup import back_up
from coordinator.ledger.storage.database import connect, insert_into, ledger_errors, reading, rows_in, upsert, writing
from coordinator.ledger.tables import EvaluationRow, HeaderRow, PlaceRow, SessionRow, StepRow
from coordinator.ledger.teams.credit import credit_days
from coordinator.ledger.teams.membership import Teams

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
    over time, `people` is about users and their devices, `rounds` about averaging as the coordinator saw it, `teams`
    about who works together.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.history, self.people, self.rounds = History(engine), PeopleQueries(engine), RoundQueries(engine)
        self.teams = Teams(engine)
        self._written: dict[str, SessionReport] = {}  # the newest reports that are in the ledger, by session

    def record(
        self,
        reports: Iterable[SessionReport],
        now: float | None = None,
        read_up_to: Place | None = None,
        serving: ServingBound | None = None,
    ) -> set[str]:
        """Keep the newest report of each session, and what was not counted before: all members of a header at once.

        A session belongs to the user and the peer that reported it first. Reports by others under its name are
        ignored, and so are those with impossible values.

        Returns the digests of headers that were not in the ledger before.

        Args:
            now: unix time at which the reports were read, by default the clock's: contributions count for that day.
            read_up_to: where the headers that the contributions are from end in the log on the disk.
            serving: bounds what trainers tell of hosts; without it nothing of that is counted.
        """
        reports, now, written, new = list(reports), moment(now), self._written, set[str]()
        changed = [report for report in reports if written.get(report.session_id) != report]
        if changed or read_up_to is not None:
            with writing(self._engine) as connection:
                standing = _read_sessions(connection, (report.session_id for report in changed))
                batch = gather(changed, standing, now)
                new = _write_batch(connection, batch, now, serving)
                if read_up_to is not None:
                    upsert(connection, PlaceRow, [{"id": 1, "start": read_up_to.start, "digest": read_up_to.digest}])
            written = written | batch.accepted
        # a report that has not changed need not be written again; sessions without a record any more are forgotten
        read = {report.session_id for report in reports}
        self._written = {name: report for name, report in written.items() if name in read}
        return new

    def place(self) -> Place | None:
        """The place in the log on the disk up to which headers are entered."""
        with reading(self._engine) as connection:
            row = connection.execute(select(PlaceRow.start, PlaceRow.digest)).one_or_none()
        return Place(*row) if row else None

    def known_sessions(self, names: Collection[str]) -> set[str]:
        """Those of these sessions that are in the ledger."""
        with reading(self._engine) as connection:
            return set(_read_sessions(connection, names))

    def record_evaluation(
        self,
        step: int,
        loss: float,
        *,
        sentence_order_loss: float | None,
        samples: int,
        sentence_order_accuracy: float | None = None,
        unigram_loss: float | None = None,
        loss_with_experts: float | None = None,
        now: float | None = None,
    ) -> None:
        """Keep the held-out losses of a global step; a second evaluation of a step replaces the first."""
        if not (math.isfinite(loss) and math.isfinite(sentence_order_loss or 0.0)):
            logger.warning("the held-out loss at step %d is not a number and was not recorded", step)
            return
        row = {
            "step": step,
            "loss": loss,
            "sentence_order_loss": sentence_order_loss,
            "samples": samples,
            "time": moment(now),
            "sentence_order_accuracy": sentence_order_accuracy,
            "unigram_loss": unigram_loss,
            "loss_with_experts": loss_with_experts,
        }
        with writing(self._engine) as connection:
            upsert(connection, EvaluationRow, [row])

    def record_unigram_loss(self, loss: float, since: float) -> None:
        """Add the unigram loss to the evaluations since a unix time that were recorded before it was known."""
        unknown = EvaluationRow.unigram_loss.is_(None) & (EvaluationRow.time >= since)
        with writing(self._engine) as connection:
            connection.execute(update(EvaluationRow).where(unknown).values(unigram_loss=loss))

    def progress(self, now: float | None = None) -> Progress:
        """Where the run is, at unix time `now` (by default the clock's)."""
        sums = select(whole_sum(SessionRow.samples).label("samples"), whole_sum(SessionRow.tokens).label("tokens"))
        present = select(
            func.count().label("sessions_present"),
            func.count(SessionRow.user_name.distinct()).label("users_present"),
            func.coalesce(func.sum(SessionRow.samples_per_second), 0.0).label("samples_per_second"),
        ).where(is_present(moment(now)))
        last = select(StepRow.step, _LOSS).order_by(StepRow.step.desc()).limit(1)
        evaluated = select(EvaluationRow.step, EvaluationRow.loss, EvaluationRow.unigram_loss)
        with reading(self._engine) as connection:
            figures = dict(connection.execute(sums).mappings().one())
            figures |= dict(connection.execute(present).mappings().one())
            step, loss = connection.execute(last).one_or_none() or (0, None)
            newest = connection.execute(evaluated.order_by(EvaluationRow.step.desc()).limit(1)).one_or_none()
        eval_step, eval_loss, unigram_loss = newest or (None, None, None)
        scores = {"eval_step": eval_step, "eval_loss": eval_loss, "unigram_loss": unigram_loss}
        return Progress.model_validate(figures | scores | {"step": step, "loss": loss})

    def steps(self, since: int = 0) -> list[StepSummary]:
        """All global steps from `since` on, in order."""
        query = select(StepRow.__table__, _LOSS).where(StepRow.step >= since).order_by(StepRow.step)
        return ask(self._engine, query, StepSummary)

    def leaderboard(self, now: float | None = None, since: datetime.date | None = None) -> list[Leader]:
        """All users, the one with most samples first; with `since`, what was counted from that day (UTC) on.

        `first_seen` is the start of the user's first session ever. With `since`, sessions are those that reported
        from that day on, and users of whom nothing was counted are left out.
        """
        query = leaders(moment(now)) if since is None else leaders_since(since, moment(now))
        return ask(self._engine, query, Leader)

    def sessions(self, now: float | None = None) -> list[SessionSummary]:
        """All sessions, in the order in which they started."""
        query = session_rows(moment(now)).order_by(SessionRow.started, SessionRow.session_id)
        return ask(self._engine, query, SessionSummary)

    def evaluations(self) -> list[EvaluationRecord]:
        """All held-out evaluations, by global step."""
        query = select(EvaluationRow.__table__).order_by(EvaluationRow.step)
        return ask(self._engine, query, EvaluationRecord)

    def totals(self) -> Totals:
        """The whole run so far."""
        seconds = SessionRow.last_seen - SessionRow.started
        trains = ~SessionRow.hosts_experts
        waiting = func.sum(SessionRow.data_wait_fraction * seconds).filter(trains)
        waited = waiting / func.nullif(func.sum(seconds).filter(trains), 0)
        query = select(
            select(func.count()).select_from(StepRow).scalar_subquery().label("steps"),
            func.count(SessionRow.user_name.distinct()).label("users"),
            func.count().label("sessions"),
            whole_sum(SessionRow.samples).label("samples"),
            whole_sum(SessionRow.tokens).label("tokens"),
            whole_sum(SessionRow.averaging_rounds).label("averaging_rounds"),
            whole_sum(SessionRow.averaging_failures).label("averaging_failures"),
            func.coalesce(waited, 0.0).label("data_wait_fraction"),
            (func.coalesce(func.sum(SessionRow.seconds), 0.0) / 3600).label("hours"),
        )
        (totals,) = ask(self._engine, query, Totals)
        return totals

    def back_up(self) -> None:
        """Copy an SQLite ledger; raises `LedgerBroken` if a page of it cannot be read."""
        with ledger_errors(self._engine.url):
            back_up(self._engine)

    def close(self) -> None:
        """Disconnect from the database. The ledger can be used again; it reconnects."""
        self._engine.dispose()
        self._written = {}


_LOSS = (StepRow.loss_sum / StepRow.samples).label("loss")  # mean over samples, nats


def _read_sessions(connection: Connection, names: Iterable[str]) -> dict[str, Row]:
    """The rows of those of these sessions that have one, by id."""
    rows = rows_in(connection, select(SessionRow.__table__), SessionRow.session_id, names)
    return {row["session_id"]: row for row in rows}


def _write_batch(connection: Connection, batch: Batch, now: float, serving: ServingBound | None) -> set[str]:
    """Count what is new in the batch, and bring all sums up to date; `now` is the coordinator's unix time.

    Returns the digests of headers that were not in the ledger before.
    """
    new = _insert_headers(connection, batch)
    sums = add_up(batch, new, now)
    upsert(connection, SessionRow, list(sums.sessions.values()))
    upsert(
        connection, StepRow, list(sums.steps.values()), adding=("samples", "tokens", "peers", "loss_sum"), kept="time"
    )
    credit_days(connection, list(sums.days.values()))
    if serving is not None:
        count_served(connection, batch.accepted, sums.sessions, serving, day_of(now))
    return new


def _insert_headers(connection: Connection, batch: Batch) -> set[str]:
    """The digests of those that were not in the ledger before."""
    digests = {header for header, _ in batch.candidates}
    if not digests:
        return set()
    insert = insert_into(connection, HeaderRow).on_conflict_do_nothing().returning(HeaderRow.digest)
    return set(connection.scalars(insert, [{"digest": one} for one in digests]))
