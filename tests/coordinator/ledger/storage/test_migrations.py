"""The tables of a ledger, and programs that meet in one while it is brought up to date."""

import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.operations import Operations
from alembic.runtime.migration import MigrationContext
from sqlalchemy import Engine, create_engine, inspect

from coordinator.ledger import migrations
from coordinator.ledger.ingest import SessionReport
from coordinator.ledger.ledger import open_ledger
from coordinator.ledger.storage.database import LedgerError
from coordinator.ledger.tables import Base
from tests.support.waiting import PATIENCE

# Opens a ledger, and kills itself after so many statements of its own.
OPENER = """
import os, signal, sys
from pathlib import Path
from sqlalchemy import Engine, event
from coordinator.ledger.ledger import open_ledger

left = int(sys.argv[3])

@event.listens_for(Engine, "after_cursor_execute")
def die(*_):
    global left
    left -= 1
    if left < 0:
        os.kill(os.getpid(), signal.SIGKILL)

open_ledger(sys.argv[1], Path(sys.argv[2]), patience=240)
"""


def start_opener(url: str, folder: Path, statements: int) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", OPENER, url, str(folder), str(statements)],
        cwd=Path(__file__).parents[4],
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.fixture
def database(ledger_url: str, tmp_path: Path) -> Engine:
    """The ledger's, without what `open_ledger` does."""
    return create_engine(
        ledger_url if "postgresql" in ledger_url else f"sqlite:///{tmp_path}/ledger.db", poolclass=sa.NullPool
    )


def test_the_steps_lead_from_the_first_tables_to_those_of_today(database: Engine) -> None:
    """The file has the tables from before the first step, and stays as it is."""
    first = Path(__file__).with_name("first_tables.sql").read_text()
    if database.name == "sqlite":
        first = first.replace("DOUBLE PRECISION", "DOUBLE")
    with database.begin() as connection:
        for statement in first.split(";"):
            connection.execute(sa.text(statement))
        migrations.upgrade(connection)
        assert compare_metadata(MigrationContext.configure(connection), Base.metadata) == []
        keys = sa.inspect(connection)
        for table in Base.metadata.sorted_tables:  # those are not compared
            assert keys.get_pk_constraint(table.name)["constrained_columns"] == [one.name for one in table.primary_key]


def test_a_ledger_from_before_there_were_steps_is_refused_by_name(
    ledger_url: str, tmp_path: Path, database: Engine
) -> None:
    with database.begin() as connection:
        connection.execute(sa.text("CREATE TABLE ledger_version (version_num VARCHAR(32) PRIMARY KEY)"))
    with pytest.raises(
        LedgerError,
        match=r"ledger \S*ledger\S* was made by an older Sahaj, .*, or move the ledger, its copy and the log away",
    ):
        open_ledger(ledger_url, tmp_path)


def test_a_beginning_that_is_killed_leaves_no_table_and_the_next_one_makes_all(
    ledger_url: str, tmp_path: Path, database: Engine
) -> None:
    opener = start_opener(ledger_url, tmp_path, statements=12)  # in the midst of the tables
    _, errors = opener.communicate(timeout=PATIENCE)
    assert opener.returncode == -signal.SIGKILL, errors
    assert inspect(database).get_table_names() == []
    ledger = open_ledger(ledger_url, tmp_path)
    assert ledger.totals().steps == 0
    ledger.close()


def test_programs_that_open_a_new_ledger_at_once_make_its_tables_once(ledger_url: str, tmp_path: Path) -> None:
    openers = [start_opener(ledger_url, tmp_path, 10_000) for _ in range(2)]
    for opener in openers:
        _, errors = opener.communicate(timeout=PATIENCE)
        assert opener.returncode == 0, errors
    ledger = open_ledger(ledger_url, tmp_path)
    assert ledger.totals().steps == 0
    ledger.close()


def add_battery(operations: Operations) -> None:
    operations.add_column("sessions", sa.Column("battery", sa.Double))


def test_a_newer_ledger_is_refused_and_left_as_it_is(
    ledger_url: str, tmp_path: Path, database: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as newer:
        newer.setattr(migrations, "STEPS", (add_battery,))
        open_ledger(ledger_url, tmp_path).close()
    with database.begin() as connection:
        connection.execute(sa.text("DROP TABLE headers"))
    with pytest.raises(LedgerError, match=r"newer Sahaj \(schema 1, this one knows 0\); upgrade Sahaj or .*ledger$"):
        open_ledger(ledger_url, tmp_path)
    assert not inspect(database).has_table("headers")


def test_an_older_ledger_gets_the_steps_that_it_lacks_all_or_none_and_keeps_its_people(
    ledger_url: str,
    tmp_path: Path,
    database: Engine,
    monkeypatch: pytest.MonkeyPatch,
    report: Callable[..., SessionReport],
) -> None:
    def columns() -> set[str]:
        return {one["name"] for one in inspect(database).get_columns("sessions")}

    ledger = open_ledger(ledger_url, tmp_path)
    ledger.record([report("a", steps={1: (32, 9.0)})])
    ledger.close()
    monkeypatch.setattr(migrations, "STEPS", (add_battery, lambda operations: operations.drop_table("nowhere")))
    with pytest.raises(LedgerError):
        open_ledger(ledger_url, tmp_path)
    assert "battery" not in columns()
    monkeypatch.setattr(migrations, "STEPS", (add_battery,))
    for _ in range(2):  # the second time it is up to date
        ledger = open_ledger(ledger_url, tmp_path)
        assert [(one.user, one.samples) for one in ledger.leaderboard()] == [("asha", 32)]
        ledger.close()
    assert "battery" in columns()
