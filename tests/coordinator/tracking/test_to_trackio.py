"""Figures of a coordinator's process in a real Trackio server, over a socket."""

import contextlib
import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from coordinator.tracking.trackio_process import FIRST_PAUSE, begun
from tests.support.ports import free_port
from tests.support.waiting import PATIENCE, wait_until

pytest.importorskip("trackio")

TOKEN = "write-token-of-the-server"
PROGRAM = """
import logging, sys, time
from pathlib import Path
from coordinator.tracking.tracker import open_tracker
from swarm.leaving import end_process
from swarm.run_file import parse_run
from swarm.secret_variables import hide_secrets

hide_secrets()
logging.basicConfig(format="%(message)s")
section = {"trackio": sys.argv[3], "ledger": "postgresql://asha:secret@host/ledger"}
content = {"name": "test-run", "data": {"train": [{"path": "x.txt"}]}, "coordinator": section}
tracker = open_tracker(parse_run(content, Path("run.yaml")), Path(sys.argv[1]))
for step in range(int(sys.argv[2]), int(sys.argv[2]) + 3):
    tracker.log({"loss": 9.0 - step, "samples": 32.0}, step)
tracker.log({"held_out_loss": 8.5}, int(sys.argv[2]))  # of a step that others have followed
while not float(sys.argv[4]) and any(one._pending.qsize() for one in tracker._senders):
    time.sleep(0.01)  # until all but the last figures are handed over
tracker.finish(timeout=float(sys.argv[4]))
end_process()  # as a coordinator does, with all its children
"""


@contextmanager
def trackio_server(folder: Path, port: int) -> Iterator[None]:
    folder.mkdir(exist_ok=True)
    said = folder / "said.txt"
    environment = {
        "TRACKIO_DIR": str(folder),
        "TRACKIO_WRITE_TOKEN": TOKEN,
        "GRADIO_SERVER_PORT": str(port),
        "BROWSER": "true",
    }
    with said.open("w") as output:
        process = subprocess.Popen(
            [sys.executable, "-c", "from trackio.cli import main; main()", "show", "--host", "127.0.0.1"],
            env=os.environ | environment,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        try:
            wait_until(lambda: "launched at" in said.read_text(), said.read_text)
            yield
        finally:
            process.kill()
            process.wait()


def mirrored(
    state_folder: Path, first: int, port: int, token: str = TOKEN, patience: float = 120.0
) -> subprocess.CompletedProcess[str]:
    """Mirror three steps in a process of its own, whose secrets are hidden."""
    return subprocess.run(
        [sys.executable, "-c", PROGRAM, str(state_folder), str(first), f"http://127.0.0.1:{port}", str(patience)],
        cwd=Path(__file__).parents[3],
        env=os.environ | {"HOME": str(state_folder), "TRACKIO_WRITE_TOKEN": token},
        capture_output=True,
        text=True,
        check=True,
        timeout=PATIENCE,
    )


def recorded(folder: Path) -> list[tuple[str, int, dict[str, float]]]:
    """The runs, steps and figures in Trackio's folder."""
    with sqlite3.connect(folder / "test-run.db") as database:
        rows = database.execute("SELECT run_name, step, metrics FROM metrics ORDER BY step, id").fetchall()
    return [(name, step, json.loads(metrics)) for name, step, metrics in rows]


def test_a_server_of_ones_own_has_the_figures_and_a_restart_continues_the_curve(tmp_path: Path) -> None:
    port, state, server = free_port(), tmp_path / "state", tmp_path / "server"
    with trackio_server(server, port):
        for first in (0, 3):
            done = mirrored(state, first, port)
            assert (done.stdout, done.stderr) == ("", "")
    (identity,) = {name for name, _, _ in recorded(server)}
    assert identity == f"test-run-{(state / 'trackio-id').read_text()}"
    losses = [(step, figures["loss"]) for _, step, figures in recorded(server) if "loss" in figures]
    assert losses == [(step, 9.0 - step) for step in range(6)]
    held_out = [step for _, step, figures in recorded(server) if figures == {"held_out_loss": 8.5}]
    assert held_out == [0, 3]
    kept = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file() and path.name != "said.txt"]
    assert not any(b"secret" in content for content in kept)
    assert not any(TOKEN.encode() in path.read_bytes() for path in state.rglob("*") if path.is_file())


def test_without_a_server_figures_are_kept_on_disk_and_it_is_said(tmp_path: Path) -> None:
    done = mirrored(tmp_path, 0, free_port())
    assert "trackio failed" not in done.stderr
    assert "could not be sent" in done.stderr or "Could not connect" in done.stderr
    assert "Traceback" not in done.stderr
    assert [figures["loss"] for _, _, figures in recorded(tmp_path / "trackio") if "loss" in figures] == [9.0, 8.0, 7.0]


def test_without_a_token_it_is_said_and_the_run_goes_on(tmp_path: Path) -> None:
    done = mirrored(tmp_path, 0, free_port(), token="")
    assert done.returncode == 0
    assert "Self-hosted logging requires a write token" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_server_that_is_away_at_first_is_asked_again_and_once_more_at_the_end() -> None:
    outcomes: list[object] = [OSError("away"), OSError("away"), "curve", OSError("away"), OSError("still away")]
    pauses: list[float] = []

    def begin() -> object:
        outcome = outcomes.pop(0)
        if isinstance(outcome, OSError):
            raise outcome
        return outcome

    def ends_within(seconds: float) -> bool:
        pauses.append(seconds)
        return len(outcomes) < 3

    with pytest.warns(UserWarning, match="figures wait, and it is tried again: away") as said:
        assert begun(begin, ends_within) == "curve"
    assert pauses == [FIRST_PAUSE, 2 * FIRST_PAUSE] and len(said) == 1
    with pytest.warns(UserWarning), pytest.raises(OSError, match="still away"):
        begun(begin, ends_within)


def test_figures_outlive_a_coordinator_that_has_no_time(tmp_path: Path) -> None:
    port, state, server = free_port(), tmp_path / "state", tmp_path / "server"

    def arrived() -> bool:
        with contextlib.suppress(sqlite3.OperationalError):  # the server is about to make the table
            return len(recorded(server)) >= 3
        return False

    with trackio_server(server, port):
        mirrored(state, 0, port, patience=0.0)
        wait_until(arrived, "figures at the server")
