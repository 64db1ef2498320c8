"""The tables of a ledger, and programs that meet in one while it is brought up to date."""

import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import create_engine, inspect, text

import coordinator.ledger.migrations
from coordinator.ledger.ingest import SessionReport
from coordinator.ledger.ledger import open_ledger
from coordinator.ledger.rounds import SeenRound
from coordinator.ledger.storage.database import LedgerError
from coordinator.ledger.storage.upgrade import VERSION_TABLE
from coordinator.ledger.tables import Base
from tests.support.waiting import PATIENCE

TAKE_BACK_TEAMS = (  # and what the seventh step has dropped
    *(f"ALTER TABLE rounds ADD COLUMN {name} INTEGER NOT NULL DEFAULT 0" for name in ("samples", "peers")),
    *(f"DROP TABLE {name}" for name in ("team_days", "team_members", "teams")),
    "DROP INDEX ix_sessions_peer_id",
)
TAKE_BACK_TO_THE_THIRD = (  # what the sixth, the fifth and the fourth step have added
    *TAKE_BACK_TEAMS,
    "ALTER TABLE sessions DROP COLUMN pause",
    "ALTER TABLE sessions DROP COLUMN hosts_experts",
    "ALTER TABLE sessions DROP COLUMN tokens_served",
    "ALTER TABLE days DROP COLUMN tokens_served",
    "ALTER TABLE evaluations DROP COLUMN loss_with_experts",
    "DROP TABLE served",
)

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
        cwd=Path(__file__).parents[3],
        stderr=subprocess.PIPE,
        text=True,
    )


def test_the_tables_of_all_migrations_are_those_of_the_program(ledger_url: str, tmp_path: Path) -> None:
    open_ledger(ledger_url, tmp_path).close()
    engine = create_engine(ledger_url if "postgresql" in ledger_url else f"sqlite:///{tmp_path}/ledger.db")
    with engine.connect() as connection:
        known = {"version_table": VERSION_TABLE}
        assert compare_metadata(MigrationContext.configure(connection, opts=known), Base.metadata) == []
    engine.dispose()


def test_a_beginning_that_is_killed_leaves_no_table_and_the_next_one_makes_all(ledger_url: str, tmp_path: Path) -> None:
    opener = start_opener(ledger_url, tmp_path, statements=12)  # in the midst of the tables
    _, errors = opener.communicate(timeout=PATIENCE)
    assert opener.returncode == -signal.SIGKILL, errors
    engine = create_engine(ledger_url if "postgresql" in ledger_url else f"sqlite:///{tmp_path}/ledger.db")
    assert inspect(engine).get_table_names() == []
    engine.dispose()
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


def test_a_newer_ledger_is_refused_and_left_as_it_is(ledger_url: str, tmp_path: Path) -> None:
    open_ledger(ledger_url, tmp_path).close()
    engine = create_engine(ledger_url if "postgresql" in ledger_url else f"sqlite:///{tmp_path}/ledger.db")
    with engine.begin() as connection:
        connection.execute(text(f"UPDATE {VERSION_TABLE} SET version_num = '0099'"))
        connection.execute(text("DROP TABLE headers"))
    with pytest.raises(LedgerError) as caught:
        open_ledger(ledger_url, tmp_path)
    message = str(caught.value)
    assert "newer Sahaj" in message and "0099" in message and "upgrade Sahaj" in message
    assert "\n" not in message
    assert not inspect(engine).has_table("headers")
    engine.dispose()


def test_a_ledger_of_the_first_tables_keeps_its_evaluations(ledger_url: str, tmp_path: Path) -> None:
    open_ledger(ledger_url, tmp_path).close()
    engine = create_engine(ledger_url if "postgresql" in ledger_url else f"sqlite:///{tmp_path}/ledger.db")
    with engine.begin() as connection:
        connection.execute(text("ALTER TABLE evaluations DROP COLUMN unigram_loss"))
        for statement in TAKE_BACK_TO_THE_THIRD:
            connection.execute(text(statement))
        connection.execute(text("INSERT INTO evaluations VALUES (5, 6.5, 0.7, 64, 1000.0, 0.75)"))
        connection.execute(text(f"UPDATE {VERSION_TABLE} SET version_num = '0001'"))
    engine.dispose()
    ledger = open_ledger(ledger_url, tmp_path)
    assert [tuple(dict(one).values()) for one in ledger.evaluations()] == [(5, 6.5, 0.7, 64, 1000.0, 0.75, None, None)]
    ledger.close()


def test_a_ledger_from_before_hosts_had_credit_keeps_its_people(
    ledger_url: str, tmp_path: Path, report: Callable[..., SessionReport]
) -> None:
    ledger = open_ledger(ledger_url, tmp_path)
    ledger.record([report("a", steps={1: (32, 9.0)})])
    ledger.close()
    engine = create_engine(ledger_url if "postgresql" in ledger_url else f"sqlite:///{tmp_path}/ledger.db")
    with engine.begin() as connection:
        for statement in TAKE_BACK_TO_THE_THIRD:
            connection.execute(text(statement))
        connection.execute(text(f"UPDATE {VERSION_TABLE} SET version_num = '0003'"))
    engine.dispose()
    ledger = open_ledger(ledger_url, tmp_path)
    assert [(one.user, one.samples, one.tokens_served) for one in ledger.leaderboard()] == [("asha", 32, 0)]
    ledger.close()


def test_a_ledger_from_before_teams_keeps_its_people_and_has_teams(
    ledger_url: str, tmp_path: Path, report: Callable[..., SessionReport]
) -> None:
    ledger = open_ledger(ledger_url, tmp_path)
    ledger.record([report("a", steps={1: (32, 9.0)})])
    ledger.rounds.write([SeenRound(1, 2.0, 1.5)], [], now=1000.0)
    ledger.close()
    engine = create_engine(ledger_url if "postgresql" in ledger_url else f"sqlite:///{tmp_path}/ledger.db")
    with engine.begin() as connection:
        for statement in TAKE_BACK_TEAMS:
            connection.execute(text(statement))
        connection.execute(text(f"UPDATE {VERSION_TABLE} SET version_num = '0005'"))
    engine.dispose()
    ledger = open_ledger(ledger_url, tmp_path)
    ledger.teams.create("asha", "River")
    ledger.record([report("a", steps={1: (32, 9.0), 2: (8, 9.0)})])
    assert [(one.user, one.samples) for one in ledger.leaderboard()] == [("asha", 40)]
    assert [(one.name, one.samples) for one in ledger.teams.board()] == [("River", 8)]
    ledger.rounds.write([SeenRound(2, 4.0, None)], [], now=1000.0)
    assert ledger.rounds.gradient_norms(0) == [2.0, 4.0]
    ledger.close()


def test_the_migrations_are_one_line_of_steps() -> None:
    steps = ScriptDirectory(str(Path(coordinator.ledger.migrations.__file__).parent))
    found = [step.revision for step in steps.walk_revisions()]
    assert found == sorted(found, reverse=True)
    assert steps.get_heads() == [found[0]]
