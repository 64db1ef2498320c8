import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import make_url

from coordinator.ledger.ingest import SessionReport
from coordinator.ledger.ledger import open_ledger
from coordinator.ledger.storage.database import LedgerError, _database_url, writing
from swarm import secret_variables
from tests.support.waiting import PATIENCE

Report = Callable[..., SessionReport]

# Records a batch of 50 sessions of four users in a global step, and says so. In the next one the process kills itself
# inside the transaction, after so many statements of it.
WRITER = """
import os, signal, sys
from pathlib import Path
from sqlalchemy import Engine, event
from coordinator.ledger.ingest import Contribution, SessionReport
from coordinator.ledger.ledger import open_ledger

url, folder, first, statements = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
ledger = open_ledger(url, folder)

def batch(number):
    brought = (Contribution(f"{number:064x}", number, 1, 128, 5.0),)
    rest = (False, 0.0, number, number)
    ledger.record(SessionReport(f"{s:032x}", f"user-{s % 4}", f"peer {s}", *rest, contributions=brought)
                  for s in range(50))
    print(number, flush=True)

batch(first)

@event.listens_for(Engine, "after_cursor_execute")
def die(*_):
    global statements
    statements -= 1
    if statements < 0:
        os.kill(os.getpid(), signal.SIGKILL)

batch(first + 1)
"""


def complaint(action: Callable[[], object]) -> str:
    with pytest.raises(LedgerError) as caught:
        action()
    message = str(caught.value)
    assert "\n" not in message
    assert caught.value.exit_status == 7
    return message


def test_a_writer_killed_in_mid_transaction_leaves_whole_batches(ledger_url: str, tmp_path: Path) -> None:
    ledger = open_ledger(ledger_url, tmp_path)
    ledger.teams.create("user-0", "River")
    ledger.teams.join("user-1", "River")
    for first, statements in enumerate((1, 4, 6, 7), start=1):
        writer = subprocess.run(
            [sys.executable, "-c", WRITER, ledger_url, str(tmp_path), str(first), str(statements)],
            cwd=Path(__file__).parents[3],
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE,
        )
        assert writer.returncode == -signal.SIGKILL, writer.stderr
        assert writer.stdout.split() == [str(first)]
        # what was confirmed is there, and nothing of the last batch, which comes again
        assert [(one.step, one.samples) for one in ledger.steps()] == [(step, 50) for step in range(1, first + 1)]
        assert {one.step for one in ledger.sessions()} == {first}
        by_user = {one.user: one.samples for one in ledger.leaderboard()}
        of_team = {one.user: one.samples for one in ledger.teams.people("River", 100)}
        assert of_team == {user: by_user[user] for user in ("user-0", "user-1")}
        assert sum(one.samples for one in ledger.teams.days("River")) == sum(of_team.values())
    ledger.close()


def test_a_relative_sqlite_path_lies_in_the_state_folder(tmp_path: Path) -> None:
    open_ledger("sqlite:///sub/ledger.db", tmp_path / "state").close()
    assert (tmp_path / "state" / "sub" / "ledger.db").is_file()
    open_ledger(f"sqlite:///{tmp_path}/absolute.db", tmp_path / "state").close()
    assert (tmp_path / "absolute.db").is_file()


def test_a_locked_ledger_ends_in_one_line_and_loses_nothing(ledger_url: str, tmp_path: Path, report: Report) -> None:
    ledger = open_ledger(ledger_url, tmp_path, patience=0.1)
    one = report("a", steps={1: (4, 5.0)})
    with writing(ledger._engine):  # as another process would
        message = complaint(lambda: ledger.record([one]))
        assert str(make_url(ledger_url).database) in message
        assert "another process is writing" in message
        assert ledger.totals().samples == 0  # reading does not wait
    ledger.record([one])
    assert ledger.totals().samples == 4
    ledger.close()


def test_a_file_that_is_no_database_ends_in_one_line_and_is_not_touched(tmp_path: Path) -> None:
    content = b"these are my notes, not a ledger\n" * 200
    (tmp_path / "ledger.db").write_bytes(content)
    message = complaint(lambda: open_ledger("sqlite:///ledger.db", tmp_path))
    assert "the file is broken" in message
    assert (tmp_path / "ledger.db").read_bytes() == content


def test_a_truncated_ledger_ends_in_one_line(tmp_path: Path, report: Report) -> None:
    ledger = open_ledger("sqlite:///ledger.db", tmp_path)
    ledger.record(report("a", steps={step: (1, 5.0)}, last_seen=float(step)) for step in range(3000))
    ledger.close()
    size = (tmp_path / "ledger.db").stat().st_size
    os.truncate(tmp_path / "ledger.db", size // 2)
    assert "the file is broken" in complaint(lambda: open_ledger("sqlite:///ledger.db", tmp_path).totals())


def test_an_unreachable_server_ends_in_one_line_without_the_password(tmp_path: Path) -> None:
    url = "postgresql://asha:secret@127.0.0.1:9/ledger"
    message = complaint(lambda: open_ledger(url, tmp_path, patience=1))
    assert "127.0.0.1" in message and "see that the database can be reached" in message
    assert "secret" not in message


def test_the_password_may_be_in_the_environment_from_which_it_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(secret_variables, "_hidden", {})
    monkeypatch.setenv("PGPASSWORD", "by-environment")
    secret_variables.hide_secrets()
    assert "PGPASSWORD" not in os.environ
    assert _database_url("postgresql://asha@host/ledger", tmp_path).password == "by-environment"
    assert _database_url("postgresql://asha:by-url@host/ledger", tmp_path).password == "by-url"
    assert _database_url("sqlite:///ledger.db", tmp_path).password is None


@pytest.mark.parametrize("url", ["ledger.db", "mysql://host/db", "sqlite://", "sqlite:///:memory:", "postgres://h/db"])
def test_a_url_that_is_no_ledger_ends_in_one_line_that_names_the_key(url: str, tmp_path: Path) -> None:
    assert "coordinator.ledger" in complaint(lambda: open_ledger(url, tmp_path))


@pytest.mark.parametrize("place", ["sqlite:////proc/no/ledger.db", "sqlite:///folder"])
def test_a_place_that_cannot_be_written_ends_in_one_line(place: str, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    complaint(lambda: open_ledger(place, tmp_path))
