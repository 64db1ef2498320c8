"""Ledgers of older and newer programs, and programs that meet in one while it is brought up to date."""

import datetime
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import create_engine, inspect, text

import coordinator.migrations
from coordinator.ledger import Ledger, LedgerError, SessionReport, open_ledger
from coordinator.ledger_schema import Base
from coordinator.ledger_upgrade import VERSION_TABLE
from tests.coordinator.first_ledger import A_SAMPLES, B_SAMPLES, EXPECTED, STEPS, write_first_ledger
from tests.waiting import PATIENCE

Report = Callable[..., SessionReport]

# Opens a ledger, and kills itself after so many statements of its own.
OPENER = """
import os, signal, sys
from pathlib import Path
from sqlalchemy import Engine, event
from coordinator.ledger import open_ledger

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
        cwd=Path(__file__).parents[2],
        stderr=subprocess.PIPE,
        text=True,
    )


def expect_all_of_the_first_ledger(ledger: Ledger) -> None:
    assert ledger.steps() == EXPECTED
    totals = ledger.totals()
    assert (totals.steps, totals.samples) == (STEPS, A_SAMPLES + B_SAMPLES)
    assert totals.tokens == 128 * totals.samples
    assert [(one.user, one.samples) for one in ledger.leaderboard()] == [("asha", A_SAMPLES), ("bo", B_SAMPLES)]
    assert [(one.session_id[0], one.samples) for one in ledger.sessions()] == [("a", A_SAMPLES), ("b", B_SAMPLES)]
    assert [(one.step, one.loss) for one in ledger.evaluations()] == [(2, 9.25)]


def test_a_first_ledger_keeps_all_its_sums_and_goes_on(ledger_url: str, tmp_path: Path, report: Report) -> None:
    write_first_ledger(ledger_url, tmp_path)
    ledger = open_ledger(ledger_url, tmp_path)
    expect_all_of_the_first_ledger(ledger)
    late = dict.fromkeys(range(12), (10, 4.0))  # b had the odd ones counted
    recent = dict.fromkeys(range(STEPS - 8, STEPS), (30, 8.0))
    ledger.record([report("b", user="bo", steps=late), report("a", steps=recent, last_seen=5000.0)])
    assert ledger.totals().samples == A_SAMPLES + B_SAMPLES + 6 * 10
    ledger.record([report("a", steps={STEPS: (30, 8.0)}, last_seen=5001.0)])  # the others are rolled up now
    ledger.record([report("b", user="bo", steps=late), report("a", steps={0: (30, 8.0)}, last_seen=5002.0)])
    assert ledger.totals().samples == A_SAMPLES + B_SAMPLES + 6 * 10 + 30
    ledger.close()


def test_a_ledger_from_before_the_history_keeps_all_its_rows_and_goes_on(
    ledger_url: str, tmp_path: Path, report: Report
) -> None:
    url = write_first_ledger(ledger_url, tmp_path)
    engine = create_engine(url)
    with engine.connect() as connection, connection.begin():
        config = Config()
        config.set_main_option("script_location", str(Path(coordinator.migrations.__file__).parent))
        config.attributes |= {"connection": connection, "version_table": VERSION_TABLE}
        command.upgrade(config, "0002")
        assert "country" not in {one["name"] for one in inspect(connection).get_columns("sessions")}
    engine.dispose()
    ledger = open_ledger(ledger_url, tmp_path)
    expect_all_of_the_first_ledger(ledger)
    history = ledger.history
    assert history.started() is None and history.evaluations(50)[0].sentence_order_accuracy is None
    buckets = history.steps(50)
    assert (buckets[-1].step, buckets[-1].time) == (STEPS - 1, None)
    ledger.record([report("c", user="di", country="BD", steps={STEPS: (30, 8.0)}, last_seen=5000.0)], now=5000.0)
    assert history.steps(50)[-1].time == 5000.0
    assert [(one.country, one.people) for one in ledger.census.countries()] == [("BD", 1)]
    assert len(ledger.census.days("asha")) == 1
    ledger.close()


def test_days_of_a_first_ledger_are_those_on_which_its_sessions_were_last_heard_of(
    ledger_url: str, tmp_path: Path
) -> None:
    write_first_ledger(ledger_url, tmp_path)
    ledger = open_ledger(ledger_url, tmp_path)
    first, second = ledger.leaderboard(since=datetime.date(1970, 1, 1))
    assert (first.user, first.samples, first.hours) == ("asha", A_SAMPLES, pytest.approx(1.0))
    # the clock of b was wrong: it was heard of today at the latest, and nobody knows for how long it was there
    assert (second.user, second.samples, second.hours) == ("bo", B_SAMPLES, 0.0)
    today = datetime.datetime.now(datetime.timezone.utc).date()
    assert [one.user for one in ledger.leaderboard(since=today - datetime.timedelta(days=1))] == ["bo"]
    ledger.close()


def test_a_first_ledger_whose_beginning_was_interrupted_is_completed(tmp_path: Path) -> None:
    engine = create_engine(f"sqlite:///{tmp_path}/ledger.db")
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE schema_version (version BIGINT NOT NULL PRIMARY KEY)"))
    engine.dispose()
    ledger = open_ledger("sqlite:///ledger.db", tmp_path)
    assert ledger.totals().steps == 0
    ledger.close()


def test_a_program_from_before_migrations_refuses_what_it_does_not_know(ledger_url: str, tmp_path: Path) -> None:
    url = write_first_ledger(ledger_url, tmp_path)
    open_ledger(ledger_url, tmp_path).close()
    engine = create_engine(url)
    with engine.connect() as connection:  # it asks for this, and knows of 1
        assert connection.scalar(text("SELECT MAX(version) FROM schema_version")) == 2
    engine.dispose()


def test_the_tables_of_all_migrations_are_those_of_the_program(ledger_url: str, tmp_path: Path) -> None:
    open_ledger(ledger_url, tmp_path).close()
    engine = create_engine(ledger_url if "postgresql" in ledger_url else f"sqlite:///{tmp_path}/ledger.db")
    with engine.connect() as connection:
        known = {"version_table": VERSION_TABLE, "include_name": lambda name, *_: name != "schema_version"}
        assert compare_metadata(MigrationContext.configure(connection, opts=known), Base.metadata) == []
    engine.dispose()


def test_an_upgrade_that_is_killed_leaves_the_old_ledger_whole(ledger_url: str, tmp_path: Path) -> None:
    url = write_first_ledger(ledger_url, tmp_path)
    opener = start_opener(ledger_url, tmp_path, statements=30)  # in the midst of the second step
    _, errors = opener.communicate(timeout=PATIENCE)
    assert opener.returncode == -signal.SIGKILL, errors
    engine = create_engine(url)
    with engine.connect() as connection:
        tables = {"evaluations", "schema_version", "sessions", "contributions"}
        assert set(inspect(connection).get_table_names()) == tables
        assert connection.scalar(text("SELECT SUM(samples) FROM contributions")) == A_SAMPLES + B_SAMPLES
    engine.dispose()
    ledger = open_ledger(ledger_url, tmp_path)
    expect_all_of_the_first_ledger(ledger)
    ledger.close()


def test_programs_that_open_an_old_ledger_at_once_upgrade_it_once(ledger_url: str, tmp_path: Path) -> None:
    write_first_ledger(ledger_url, tmp_path)
    openers = [start_opener(ledger_url, tmp_path, 10_000) for _ in range(2)]
    for opener in openers:
        _, errors = opener.communicate(timeout=PATIENCE)
        assert opener.returncode == 0, errors
    ledger = open_ledger(ledger_url, tmp_path)
    expect_all_of_the_first_ledger(ledger)
    ledger.close()


def test_a_newer_ledger_is_refused_and_left_as_it_is(ledger_url: str, tmp_path: Path) -> None:
    open_ledger(ledger_url, tmp_path).close()
    engine = create_engine(ledger_url if "postgresql" in ledger_url else f"sqlite:///{tmp_path}/ledger.db")
    with engine.begin() as connection:
        connection.execute(text(f"UPDATE {VERSION_TABLE} SET version_num = '0099'"))
        connection.execute(text("DROP TABLE contributions"))
    with pytest.raises(LedgerError) as caught:
        open_ledger(ledger_url, tmp_path)
    message = str(caught.value)
    assert "newer Sahaj" in message and "0099" in message and "upgrade Sahaj" in message
    assert "\n" not in message
    assert not inspect(engine).has_table("contributions")
    engine.dispose()


def test_the_migrations_are_one_line_of_steps() -> None:
    steps = ScriptDirectory(str(Path(coordinator.migrations.__file__).parent))
    found = [step.revision for step in steps.walk_revisions()]
    assert found == sorted(found, reverse=True)
    assert steps.get_heads() == [found[0]]
