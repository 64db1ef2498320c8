"""Reaching the ledger's database: SQLite or PostgreSQL, its tables, and what to say when it fails."""

import contextlib
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event, func, inspect, select
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError
from sqlalchemy.schema import CreateIndex, CreateTable

from coordinator.ledger_schema import SCHEMA_VERSION, Base, SchemaRow
from swarm.errors import SahajError

# the two databases whose INSERT knows ON CONFLICT, in the same words
INSERTS: dict[str, Any] = {"sqlite": sqlite.insert, "postgresql": postgresql.insert}


class LedgerError(SahajError):
    """The ledger's database cannot be used: locked, broken, newer than this program, or out of reach."""

    exit_status = 7


def connect(url: str, state_folder: Path, patience: float) -> Engine:
    """Connect to the database at `url` and see to its tables; arguments and errors as `open_ledger`."""
    place = _database_url(url, state_folder)
    with ledger_errors(place):
        engine = _engine(place, patience)
        try:
            with engine.begin() as connection:
                _prepare_tables(connection, place)
        except BaseException:
            engine.dispose()
            raise
    return engine


@contextlib.contextmanager
def ledger_errors(place: URL) -> Iterator[None]:
    """Turn the database's complaints into one line that says what to do."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise LedgerError(f"ledger {_name(place)} needs the package {error.name}; pip install it") from None
    except SQLAlchemyError as error:
        cause = error.orig if isinstance(error, DBAPIError) else error
        reason = " ".join(str(cause).split()) or type(cause).__name__
        raise LedgerError(f"ledger {_name(place)}: {reason}; {_way_out(reason)}") from error


def _database_url(url: str, state_folder: Path) -> URL:
    """The parsed URL, with a relative SQLite path moved into the state folder."""
    try:
        place = make_url(url)
    except ArgumentError:
        raise LedgerError(
            f"coordinator.ledger is not a database URL; write sqlite:///ledger.db or "
            f"postgresql://user:password@host/database, got {url.split('@')[-1]!r}"
        ) from None
    dialect = place.get_backend_name()
    if dialect not in INSERTS:
        raise LedgerError(f"coordinator.ledger: {dialect} is not supported; use sqlite or postgresql")
    if dialect != "sqlite":
        return place
    if not place.database or place.database == ":memory:":
        raise LedgerError("coordinator.ledger names no file; write sqlite:///ledger.db")
    return place.set(database=str((state_folder / Path(place.database).expanduser()).absolute()))


def _engine(place: URL, patience: float) -> Engine:
    if place.get_backend_name() == "postgresql":
        # pool_pre_ping: a server that was restarted must not cost the first query after it
        arguments = {"connect_timeout": max(2, math.ceil(patience))}
        return create_engine(place, pool_pre_ping=True, connect_args=arguments)
    assert place.database is not None
    try:
        Path(place.database).parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise LedgerError(f"ledger {place.database}: the folder cannot be made ({error.strerror})") from None
    engine = create_engine(place, connect_args={"timeout": patience})

    @event.listens_for(engine, "connect")
    def configure(connection: Any, _: object) -> None:
        connection.execute("PRAGMA journal_mode=WAL")  # readers and the writer do not wait for each other
        connection.execute("PRAGMA synchronous=FULL")  # what was counted stays counted when the power fails
        connection.execute("PRAGMA foreign_keys=ON")

    return engine


def _prepare_tables(connection: Connection, place: URL) -> None:
    """Create the tables, or check that this program knows those that are there."""
    found = None
    if inspect(connection).has_table(SchemaRow.__tablename__):
        found = connection.scalar(select(func.max(SchemaRow.version)))
    if found is not None and found > SCHEMA_VERSION:
        raise LedgerError(
            f"ledger {_name(place)} was written by a newer Sahaj (schema {found}, this one knows "
            f"{SCHEMA_VERSION}); upgrade Sahaj or choose another coordinator.ledger"
        )
    if found is None:
        # the version comes last: a crash before it only makes the next start do this again
        for table in Base.metadata.sorted_tables:
            connection.execute(CreateTable(table, if_not_exists=True))
            for index in table.indexes:
                connection.execute(CreateIndex(index, if_not_exists=True))
        connection.execute(
            INSERTS[connection.dialect.name](SchemaRow).values(version=SCHEMA_VERSION).on_conflict_do_nothing()
        )


def _way_out(reason: str) -> str:
    if "locked" in reason:
        return "another process is writing to it; stop that one or choose another coordinator.ledger"
    if "not a database" in reason or "malformed" in reason:
        return "the file is broken; move it away, and the ledger starts anew from what peers still report"
    return "see that the database can be reached and written to"


def _name(place: URL) -> str:
    """What messages call the database: a path, or a URL without its password."""
    return str(place.database) if place.get_backend_name() == "sqlite" else place.render_as_string(hide_password=True)
