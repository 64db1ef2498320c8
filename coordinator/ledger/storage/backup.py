"""A copy of an SQLite ledger, which takes its place at a start at which a page of it cannot be read.

The copy is written by reading every row, so that a broken page is found while the copy before it is still good. It is
seldom older than a minute, and what was done since is in the headers of the log. PostgreSQL has its own backups: its
ledgers are not copied.
"""

import datetime
import itertools
import os
import shutil
import sqlite3
from pathlib import Path
from typing import Any

from sqlalchemy import Engine
from sqlalchemy.engine import URL
from sqlalchemy.exc import DatabaseError

from swarm.errors import StorageError
from swarm.files import NEARLY_FULL, storage_errors, whole_file

SUFFIX = "-backup"  # behind the ledger's name
SIDE_FILES = ("", "-wal", "-shm")  # of an SQLite database


def backup_of(place: URL) -> Path | None:
    """The path of a ledger's copy; None: it has none."""
    return Path(f"{place.database}{SUFFIX}") if place.get_backend_name() == "sqlite" else None


def back_up(engine: Engine) -> None:
    """Copy the ledger as it is now; the previous copy stays until the new one is whole.

    Raises:
        DatabaseError: the ledger cannot be read; the previous copy stays.
        StorageError: there is no room for the copy; the previous one stays.
    """
    copy = backup_of(engine.url)
    if copy is None:
        return
    with storage_errors(copy):
        parts = [Path(f"{engine.url.database}{suffix}") for suffix in SIDE_FILES]
        needed = sum(part.stat().st_size for part in parts if part.exists())
        free = shutil.disk_usage(copy.parent).free
    if free < needed + NEARLY_FULL:  # what else is written would find the disk full meanwhile
        raise StorageError(
            f"{copy}: no room for a copy of the ledger, which takes {needed / 1e6:,.0f} MB ({free / 1e6:,.0f} MB are "
            "free); free some space"
        )
    with whole_file(copy) as partial, engine.connect() as connection:
        driver: Any = connection.connection.driver_connection  # the engine would begin a transaction
        try:
            driver.execute("VACUUM INTO ?", (str(partial),))
        except sqlite3.Error as error:
            raise DatabaseError("VACUUM INTO", None, error) from error


def is_lost(place: URL) -> bool:
    """Whether there is a copy and no ledger: it was removed, or the program died between moving it and copying."""
    copy = backup_of(place)
    return copy is not None and copy.exists() and not Path(str(place.database)).exists()


def put_back(place: URL) -> str | None:
    """Put the copy into the place of a broken or lost ledger; nobody may have it open for writing.

    The copy is on the disk under a name of its own before the broken ledger is moved aside.

    Returns what was done, for people; None: there is no copy.

    Raises:
        StorageError: there is no room for it; the broken ledger stays where it is.
    """
    copy, ledger = backup_of(place), Path(str(place.database))
    if copy is None or not copy.exists():
        return None
    aside, was_there = _free_name(ledger), ledger.exists()
    made = datetime.datetime.fromtimestamp(copy.stat().st_mtime).astimezone()
    with whole_file(ledger) as partial:
        with copy.open("rb") as good, partial.open("wb") as again:
            shutil.copyfileobj(good, again)
            again.flush()
            os.fsync(again.fileno())
        for suffix in SIDE_FILES:  # the ledger first: one without its write-ahead log would look whole
            part = ledger.with_name(ledger.name + suffix)
            if part.exists():
                part.replace(aside.with_name(aside.name + suffix))
    happened = f"was broken and is now {aside.name}" if was_there else "was not there"
    return (
        f"{ledger}: {happened}; the run goes on from its copy of {made:%H:%M:%S}, and what was "
        "done since is read from the log again"
    )


def _free_name(ledger: Path) -> Path:
    names = (ledger.with_name(f"{ledger.name}-broken-{number}") for number in itertools.count(1))
    return next(name for name in names if not name.exists())
