"""Writing into the ledger: many rows in one statement, contributions counted once, old ones rolled up.

A contribution is counted if its row is really inserted, and if it is not among those that were rolled up: a bit for
each of those says so for ever. All of this happens in one transaction, and one transaction writes at a time.
"""

import datetime
import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    Connection,
    Integer,
    Table,
    Text,
    bindparam,
    cast,
    column,
    delete,
    func,
    literal,
    select,
    tuple_,
)

from coordinator.ledger_database import INSERTS
from coordinator.ledger_entry import Entry, Key, Row, add_up
from coordinator.ledger_schema import BLOCK_STEPS, Base, ContributionRow, DayRow, RolledUpRow, SessionRow, StepRow

KEPT_STEPS = 10 * BLOCK_STEPS  # newest global steps whose contributions stay as they came
ROLLED_AT_ONCE = 10 * BLOCK_STEPS  # global steps: an old ledger that has many is rolled up little by little
_ASKED_AT_ONCE = 500  # keys in a query; a database has limits, and PostgreSQL is slow with longer lists


def sessions_as_they_stand(connection: Connection, names: Iterable[str]) -> dict[str, Row]:
    """The rows of these sessions, as far as there are any."""
    found: dict[str, Row] = {}
    for some in _portions(sorted(set(names))):
        query = select(SessionRow.__table__).where(SessionRow.session_id.in_(some))
        found.update((row["session_id"], dict(row)) for row in connection.execute(query).mappings())
    return found


def write_entry(connection: Connection, entry: Entry, now: float) -> None:
    """Count what is new in the entry, and bring all sums up to date; `now` is the coordinator's unix time."""
    counted = _insert_contributions(connection, entry)
    sums = add_up(entry, counted, now)
    _upsert(connection, SessionRow, list(sums.sessions.values()))
    _upsert(connection, StepRow, list(sums.steps.values()), adding=True, kept=("time",))
    _upsert(connection, DayRow, list(sums.days.values()), adding=True)
    if counted:
        _roll_up(connection)


def roll_up_before(newest: int) -> int:
    """The global step before which contributions are rolled up: the first of a block."""
    return max(0, newest - KEPT_STEPS + 1) // BLOCK_STEPS * BLOCK_STEPS


def _insert_contributions(connection: Connection, entry: Entry) -> list[Key]:
    """The keys of those that were not in the ledger before."""
    rolled_up = _rolled_up(connection, entry.candidates)
    rows = [
        {"step": step, "session_id": name, "samples": one.samples, "tokens": one.tokens, "loss": one.loss}
        for (step, name), one in entry.candidates.items()
        if not rolled_up.get((step // BLOCK_STEPS, name), 0) >> step % BLOCK_STEPS & 1
    ]
    if not rows:
        return []
    insert, values = _insert(connection, ContributionRow, rows)
    insert = insert.on_conflict_do_nothing().returning(ContributionRow.step, ContributionRow.session_id)
    return [(step, name) for step, name in connection.execute(insert, values)]


def _rolled_up(connection: Connection, keys: Iterable[Key]) -> dict[Key, int]:
    """By block and session, a bit for each step that was rolled up, as far as the keys are concerned."""
    newest = connection.scalar(select(func.max(RolledUpRow.block)))
    if newest is None:
        return {}
    asked = sorted({(step // BLOCK_STEPS, name) for step, name in keys if step // BLOCK_STEPS <= newest})
    found: dict[Key, int] = {}
    for some in _portions(asked):
        query = select(RolledUpRow.block, RolledUpRow.session_id, RolledUpRow.counted).where(
            tuple_(RolledUpRow.block, RolledUpRow.session_id).in_(some)
        )
        found.update(((block, name), counted) for block, name, counted in connection.execute(query))
    return found


def _roll_up(connection: Connection) -> None:
    """Move contributions to old steps into their blocks, where one that comes later still finds its place."""
    newest = connection.scalar(select(func.max(StepRow.step)))
    oldest = connection.scalar(select(func.min(ContributionRow.step)))
    before = min(roll_up_before(newest or 0), (oldest or 0) + ROLLED_AT_ONCE)
    if oldest is None or oldest >= before:
        return
    block = ContributionRow.step // BLOCK_STEPS
    # a step of a session is there once: the sum of different powers of two is a set of bits
    bit = literal(1, BigInteger).bitwise_lshift(cast(ContributionRow.step % BLOCK_STEPS, Integer))
    old = (
        select(
            block,
            ContributionRow.session_id,
            cast(func.sum(bit), BigInteger),
            cast(func.sum(ContributionRow.samples), BigInteger),
            cast(func.sum(ContributionRow.tokens), BigInteger),
        )
        .where(ContributionRow.step < before)
        .group_by(block, ContributionRow.session_id)
    )
    insert = INSERTS[connection.dialect.name](RolledUpRow).from_select(
        ["block", "session_id", "counted", "samples", "tokens"], old
    )
    new = insert.excluded
    connection.execute(
        insert.on_conflict_do_update(
            index_elements=["block", "session_id"],
            set_={
                "counted": RolledUpRow.counted.bitwise_or(new.counted),
                "samples": RolledUpRow.samples + new.samples,
                "tokens": RolledUpRow.tokens + new.tokens,
            },
        )
    )
    connection.execute(delete(ContributionRow).where(ContributionRow.step < before))


def _upsert(
    connection: Connection, kind: type[Base], rows: list[Row], *, adding: bool = False, kept: Sequence[str] = ()
) -> None:
    """Write rows; where there is one with the key, replace it or add to it, but for the columns that are `kept`."""
    if not rows:
        return
    insert, values = _insert(connection, kind, rows)
    table, new = _table(kind), insert.excluded
    others = [column for column in table.columns if not column.primary_key and column.name not in kept]
    connection.execute(
        insert.on_conflict_do_update(
            index_elements=list(table.primary_key.columns),
            set_={column.name: column + new[column.name] if adding else new[column.name] for column in others},
        ),
        values,
    )


def _insert(connection: Connection, kind: type[Base], rows: list[Row]) -> tuple[Any, Any]:
    """An INSERT of all rows at once, and the values to execute it with.

    SQLite is in this process and takes row after row. PostgreSQL is not: it gets them all as one JSON text, which
    is written and read faster than a list for each column.
    """
    table = _table(kind)
    insert = INSERTS[connection.dialect.name](table)
    if connection.dialect.name == "sqlite":
        return insert, rows
    columns = [column(name, table.columns[name].type) for name in rows[0]]
    told = func.json_to_recordset(cast(bindparam("told", type_=Text), JSON))
    there = told.table_valued(*columns, name="there").render_derived(with_types=True)
    insert = insert.from_select(list(rows[0]), select(*(there.columns[one.name] for one in columns)))
    return insert, {"told": json.dumps(rows, default=datetime.date.isoformat)}


def _table(kind: type[Base]) -> Table:
    table = kind.__table__
    assert isinstance(table, Table)
    return table


def _portions(keys: Sequence[Any]) -> Iterator[Sequence[Any]]:
    return (keys[first : first + _ASKED_AT_ONCE] for first in range(0, len(keys), _ASKED_AT_ONCE))
