"""Migrations of the ledger's tables: a ledger is brought up to date when it is opened.

A new ledger gets the tables of `coordinator/ledger/tables.py`, an older one the steps that it lacks, all in one
transaction. To change the tables, change them there and add a step to the end of `STEPS`. A step must not import the
tables: it changes those that it finds, with Alembic's operations. Nothing leads back: keep a copy of the ledger to go
back to an older Sahaj.
"""

from collections.abc import Callable

from alembic.operations import Operations
from alembic.runtime.migration import MigrationContext
from sqlalchemy import Connection, insert, inspect, select, update

from coordinator.ledger.tables import Base, VersionRow

STEPS: tuple[Callable[[Operations], None], ...] = ()  # in the order in which they were added; none may be removed


def version_of(connection: Connection) -> int | None:
    """How many of all steps the ledger has seen; None if it has no tables yet, -1 if no step leads on from them."""
    tables = inspect(connection)
    if not tables.has_table(VersionRow.__tablename__):
        return None
    if all(column["name"] != "number" for column in tables.get_columns(VersionRow.__tablename__)):
        return -1
    return connection.execute(select(VersionRow.number)).scalar_one()


def upgrade(connection: Connection) -> None:
    """Make the tables, or take all steps that they lack, in the transaction that the connection is in."""
    found = version_of(connection)
    if found is None:
        Base.metadata.create_all(connection, checkfirst=False)
        connection.execute(insert(VersionRow).values(number=len(STEPS)))
    elif missing := STEPS[found:]:
        operations = Operations(MigrationContext.configure(connection))
        for step in missing:
            step(operations)
        connection.execute(update(VersionRow).values(number=len(STEPS)))
