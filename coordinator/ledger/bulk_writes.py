"""Writing into the ledger: many rows in one statement, and the members of each header credited once.

A header's members are credited if its row is really inserted, in one transaction; one transaction writes at a time.
"""

import datetime
import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from sqlalchemy import JSON, Connection, Table, Text, bindparam, cast, column, func, select

from averaging.log.log_file import Place
from coordinator.ledger.ingest import Entry, Row, add_up
from coordinator.ledger.schema import Base, DayRow, HeaderRow, PlaceRow, SessionRow, StepRow
from coordinator.ledger.storage.database import INSERTS

_ASKED_AT_ONCE = 500  # keys in a query; a database has limits, and PostgreSQL is slow with longer lists


def sessions_as_they_stand(connection: Connection, names: Iterable[str]) -> dict[str, Row]:
    """The rows of these sessions, as far as there are any."""
    found: dict[str, Row] = {}
    for some in _portions(sorted(set(names))):
        query = select(SessionRow.__table__).where(SessionRow.session_id.in_(some))
        found.update((row["session_id"], dict(row)) for row in connection.execute(query).mappings())
    return found


def write_entry(connection: Connection, entry: Entry, now: float) -> set[str]:
    """Count what is new in the entry, and bring all sums up to date; `now` is the coordinator's unix time.

    Returns the digests of headers that were not there before.
    """
    new = _insert_headers(connection, entry)
    sums = add_up(entry, new, now)
    _upsert(connection, SessionRow, list(sums.sessions.values()))
    _upsert(connection, StepRow, list(sums.steps.values()), adding=True, kept=("time",))
    _upsert(connection, DayRow, list(sums.days.values()), adding=True)
    return new


def write_place(connection: Connection, place: Place) -> None:
    """The headers of the log on the disk are entered up to here."""
    _upsert(connection, PlaceRow, [{"id": 1, "start": place.start, "digest": place.digest}])


def _insert_headers(connection: Connection, entry: Entry) -> set[str]:
    """The digests of those that were not in the ledger before."""
    steps = {header: one.step for (header, _), one in entry.candidates.items()}
    if not steps:
        return set()
    insert, values = _insert(connection, HeaderRow, [{"digest": one, "step": step} for one, step in steps.items()])
    return set(connection.scalars(insert.on_conflict_do_nothing().returning(HeaderRow.digest), values))


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
