"""Writing into the ledger: many rows in one statement, and the members of each header credited once.

A header's members are credited in the transaction that inserts its row; one transaction writes at a time.
"""

import datetime
import json
from collections.abc import Collection, Iterable
from typing import Any

from sqlalchemy import JSON, Connection, Table, Text, bindparam, cast, column, func, select

from averaging.log.entry_file import Place
from coordinator.ledger.ingest import Batch, Row, add_up
from coordinator.ledger.storage.database import INSERTS
from coordinator.ledger.tables import Base, DayRow, HeaderRow, PlaceRow, SessionRow, StepRow

_KEYS_IN_A_QUERY = 500  # databases limit them, and PostgreSQL is slow with longer lists


def read_sessions(connection: Connection, names: Iterable[str]) -> dict[str, Row]:
    """The rows of those of these sessions that have one, by id."""
    keys, found = sorted(set(names)), dict[str, Row]()
    for first in range(0, len(keys), _KEYS_IN_A_QUERY):
        some = keys[first : first + _KEYS_IN_A_QUERY]
        query = select(SessionRow.__table__).where(SessionRow.session_id.in_(some))
        found.update((row["session_id"], dict(row)) for row in connection.execute(query).mappings())
    return found


def write_batch(connection: Connection, batch: Batch, now: float) -> set[str]:
    """Count what is new in the batch, and bring all sums up to date; `now` is the coordinator's unix time.

    Returns the digests of headers that were not in the ledger before.
    """
    new = _insert_headers(connection, batch)
    sums = add_up(batch, new, now)
    upsert(connection, SessionRow, list(sums.sessions.values()))
    upsert(
        connection, StepRow, list(sums.steps.values()), adding=("samples", "tokens", "peers", "loss_sum"), kept="time"
    )
    upsert(connection, DayRow, list(sums.days.values()), adding=("samples", "tokens", "seconds"))
    return new


def write_place(connection: Connection, place: Place) -> None:
    """Note that the headers of the log on the disk are entered up to here."""
    upsert(connection, PlaceRow, [{"id": 1, "start": place.start, "digest": place.digest}])


def upsert(
    connection: Connection, kind: type[Base], rows: list[Row], *, adding: Collection[str] = (), kept: str = ""
) -> None:
    """Insert rows of different keys, or replace those with the same key.

    Args:
        adding: columns to whose old value the new one is added.
        kept: a column that keeps its old value.
    """
    if not rows:
        return
    insert, values = _insert(connection, kind, rows)
    table, new = _table(kind), insert.excluded
    others = [column for column in table.columns if not column.primary_key and column.name != kept]
    connection.execute(
        insert.on_conflict_do_update(
            index_elements=list(table.primary_key.columns),
            set_={one.name: one + new[one.name] if one.name in adding else new[one.name] for one in others},
        ),
        values,
    )


def _insert_headers(connection: Connection, batch: Batch) -> set[str]:
    """The digests of those that were not in the ledger before."""
    steps = {header: one.step for (header, _), one in batch.candidates.items()}
    if not steps:
        return set()
    insert, values = _insert(connection, HeaderRow, [{"digest": one, "step": step} for one, step in steps.items()])
    return set(connection.scalars(insert.on_conflict_do_nothing().returning(HeaderRow.digest), values))


def _insert(connection: Connection, kind: type[Base], rows: list[Row]) -> tuple[Any, Any]:
    """An INSERT of all rows at once, and the values to execute it with.

    SQLite is in this process and takes row after row. PostgreSQL is not: it gets many rows as one JSON text, which
    is written and read faster than a list for each column.
    """
    table = _table(kind)
    insert = INSERTS[connection.dialect.name](table)
    if connection.dialect.name == "sqlite" or len(rows) == 1:
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
