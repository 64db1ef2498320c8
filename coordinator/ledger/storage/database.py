"""The ledger's database, SQLite or PostgreSQL: connections, transactions, many rows in one statement, its errors."""

import contextlib
import logging
import math
import sqlite3
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DatabaseError, DBAPIError, SQLAlchemyError
from sqlalchemy.orm import DeclarativeBase

from coordinator.ledger import migrations
from coordinator.ledger.storage.backup import is_lost, put_back
from swarm.errors import SahajError, in_a_line
from swarm.secret_variables import secret

logger = logging.getLogger(__name__)

# the two databases whose INSERT knows ON CONFLICT, in the same words
INSERTS: dict[str, Any] = {"sqlite": sqlite.insert, "postgresql": postgresql.insert}
KEYS_IN_A_QUERY = 500  # databases limit them, and PostgreSQL is slow with longer lists
WRITERS_LOCK = 0x5341_4841_4A  # any number that no other program in the same PostgreSQL database takes
SILENT_SERVER = {  # of libpq: a server that vanishes without a word is given up after half a minute
    "tcp_user_timeout": 30_000,  # milliseconds
    "keepalives_idle": 10,  # seconds
    "keepalives_interval": 5,
    "keepalives_count": 4,
}
WRITING = "sahaj_writing"  # the option of a connection that is going to write


class LedgerError(SahajError):
    """The ledger's database cannot be used: locked, broken, of another version, or out of reach."""

    exit_status = 7


class LedgerBroken(LedgerError):
    """A page of the database cannot be read."""


def connect(url: str, state_folder: Path, patience: float) -> Engine:
    """Connect to the database at `url`, with its copy in its place if it is broken or lost, and upgrade its tables.

    Arguments and errors as `open_ledger`.
    """
    place = _database_url(url, state_folder)
    if is_lost(place):
        logger.warning("%s", put_back(place))
    try:
        return _connect(place, patience)
    except LedgerBroken:
        if (done := put_back(place)) is None:
            raise
        logger.warning("%s", done)
        return _connect(place, patience)


def _connect(place: URL, patience: float) -> Engine:
    with ledger_errors(place):
        engine = _engine(place, patience)
        try:
            with engine.connect() as connection:
                if place.get_backend_name() == "sqlite":
                    _check(connection)
                version, newest = migrations.version_of(connection), len(migrations.STEPS)
            if version == -1:
                raise LedgerError(
                    f"ledger {_name(place)} was made by an older Sahaj, and this one reads neither it nor the log of "
                    "that time; finish the run with the older one, or move the ledger, its copy and the log away"
                )
            if version is not None and version > newest:
                raise LedgerError(
                    f"ledger {_name(place)} was written by a newer Sahaj (schema {version}, this one knows {newest}); "
                    "upgrade Sahaj or choose another coordinator.ledger"
                )
            if version != newest:  # another process that opens it at the same time waits, and then finds it ready
                with writing(engine) as connection:
                    migrations.upgrade(connection)
        except BaseException:
            engine.dispose()
            raise
    return engine


@contextlib.contextmanager
def writing(engine: Engine) -> Iterator[Connection]:
    """A transaction that is the only one that writes: what it reads stays true until it ends; raises as `reading`."""
    with (
        ledger_errors(engine.url),
        engine.connect().execution_options(**{WRITING: True}) as connection,
        connection.begin(),
    ):
        yield connection


@contextlib.contextmanager
def reading(engine: Engine) -> Iterator[Connection]:
    """A transaction that only reads; raises `LedgerError` if the database fails."""
    with ledger_errors(engine.url), engine.begin() as connection:
        yield connection


@contextlib.contextmanager
def ledger_errors(place: URL) -> Iterator[None]:
    """Turn the database's errors into one line that says what to do."""
    try:
        yield
    except ModuleNotFoundError as error:
        remedy = 'pip install "psycopg[binary]"' if error.name == "psycopg" else "pip install it"
        raise LedgerError(f"ledger {_name(place)} needs the package {error.name}; {remedy}") from None
    except SQLAlchemyError as error:
        cause = error.orig if isinstance(error, DBAPIError) else error
        reason = in_a_line(cause)
        kind = LedgerBroken if _is_broken(reason) else LedgerError
        raise kind(f"ledger {_name(place)}: {reason}; {_remedy(reason)}") from error


def upsert(
    connection: Connection,
    kind: type[DeclarativeBase],
    rows: list[dict[str, Any]],
    *,
    adding: Collection[str] = (),
    kept: str = "",
) -> None:
    """Insert rows of different keys, or replace those with the same key.

    Args:
        adding: columns to whose old value the new one is added.
        kept: a column that keeps its old value.
    """
    if not rows:
        return
    insert, columns = insert_into(connection, kind), kind.__table__.columns
    new, keys = insert.excluded, [column for column in columns if column.primary_key]
    others = [column for column in columns if not column.primary_key and column.name != kept]
    changes = {one.name: one + new[one.name] if one.name in adding else new[one.name] for one in others}
    connection.execute(insert.on_conflict_do_update(index_elements=keys, set_=changes), rows)


def rows_in(connection: Connection, query: Any, column: Any, keys: Iterable[str]) -> list[dict[str, Any]]:
    """The rows of a query whose column has one of these keys, asked for in portions that a database accepts."""
    ordered, rows = sorted(set(keys)), list[dict[str, Any]]()
    for first in range(0, len(ordered), KEYS_IN_A_QUERY):
        some = query.where(column.in_(ordered[first : first + KEYS_IN_A_QUERY]))
        rows += map(dict, connection.execute(some).mappings())
    return rows


def insert_into(connection: Connection, kind: type[DeclarativeBase]) -> Any:
    """An INSERT that knows ON CONFLICT."""
    return INSERTS[connection.dialect.name](kind)


def folder_of(url: str, state_folder: Path) -> Path:
    """Where the ledger lies; the state folder, if that is on a server. Arguments and errors as `open_ledger`."""
    place = _database_url(url, state_folder)
    return Path(place.database or "").parent if place.get_backend_name() == "sqlite" else state_folder


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
    if dialect == "postgresql":
        driver = "postgresql+psycopg" if place.drivername == "postgresql" else place.drivername
        return place.set(drivername=driver, password=place.password or secret("PGPASSWORD") or None)
    if not place.database or place.database == ":memory:":
        raise LedgerError("coordinator.ledger names no file; write sqlite:///ledger.db")
    return place.set(database=str((state_folder / Path(place.database).expanduser()).absolute()))


def _engine(place: URL, patience: float) -> Engine:
    if place.get_backend_name() == "postgresql":
        # pool_pre_ping: a server that was restarted must not cost the first query after it
        arguments = {"connect_timeout": max(2, math.ceil(patience))} | SILENT_SERVER
        # read committed: what is read once a writer's turn has come is what the one before it wrote
        engine = create_engine(place, pool_pre_ping=True, connect_args=arguments, isolation_level="READ COMMITTED")
        wait = f"SET LOCAL lock_timeout = {max(1, round(1000 * patience))}"  # milliseconds
        begin_writing = [wait, f"SELECT pg_advisory_xact_lock({WRITERS_LOCK})", "SET LOCAL lock_timeout = 0"]
        _on_begin(engine, begin=[], begin_writing=begin_writing)
        return engine
    assert place.database is not None
    try:
        Path(place.database).parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise LedgerError(f"ledger {place.database}: the folder cannot be made ({error.strerror})") from None
    engine = create_engine(place, connect_args={"timeout": patience})

    @event.listens_for(engine, "connect")
    def configure(connection: Any, _: object) -> None:
        connection.isolation_level = None  # the driver would begin transactions late, and none for CREATE TABLE
        connection.execute("PRAGMA journal_mode=WAL")  # readers and the writer do not wait for each other
        connection.execute("PRAGMA synchronous=FULL")  # what was counted stays counted when the power fails

    _on_begin(engine, begin=["BEGIN"], begin_writing=["BEGIN IMMEDIATE"])
    return engine


def _on_begin(engine: Engine, *, begin: list[str], begin_writing: list[str]) -> None:
    """The statements with which transactions that read, and those that write, begin."""

    @event.listens_for(engine, "begin")
    def begin_transaction(connection: Connection) -> None:
        for statement in begin_writing if connection.get_execution_options().get(WRITING) else begin:
            connection.exec_driver_sql(statement)


def _check(connection: Connection) -> None:
    """Read every page, which takes about a second for a gigabyte; raises as the database does."""
    found = connection.exec_driver_sql("PRAGMA quick_check(1)").scalar()
    if found != "ok":
        raise DatabaseError("PRAGMA quick_check", None, sqlite3.DatabaseError(f"malformed: {found}"))


def _is_broken(reason: str) -> bool:
    return "not a database" in reason or "malformed" in reason


def _remedy(reason: str) -> str:
    if "locked" in reason or "lock timeout" in reason:
        return "another process is writing to it; stop that one or choose another coordinator.ledger"
    if _is_broken(reason):
        return "the file is broken; a restart puts its copy in its place, or, if there is none, move the file away"
    return "see that the database can be reached and written to"


def _name(place: URL) -> str:
    """What messages call the database: a path, or a URL without its password."""
    return str(place.database) if place.get_backend_name() == "sqlite" else place.render_as_string(hide_password=True)
