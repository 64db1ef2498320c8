import logging
import os
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

import pytest

from coordinator.tracking import Tracker, open_tracker
from swarm.run_file import RunFile, parse_run
from tests.support.waiting import PATIENCE

pytest.importorskip("wandb")

PROGRAM = """
import logging, sys
from pathlib import Path
from coordinator.tracking import open_tracker
from swarm.run_file import parse_run

logging.basicConfig(format="%(message)s")
section = {"wandb_project": "sahaj", "ledger": "postgresql://asha:secret@host/ledger"}
content = {"name": "test-run", "data": {"train": [{"path": "x.txt"}]}, "coordinator": section}
tracker = open_tracker(parse_run(content, Path("run.yaml")), Path(sys.argv[1]), start_seconds=1.0)
for step in range(int(sys.argv[2]), int(sys.argv[2]) + 3):
    tracker.log({"loss": 9.015625 - step, "samples": 32.0}, step)
tracker.finish(timeout=120)
print("failures", tracker.failures)
"""


def run_file(project: str | None) -> RunFile:
    content = {
        "name": "test-run",
        "data": {"train": [{"path": "x.txt"}]},
        "coordinator": {"wandb_project": project},
    }
    return parse_run(content, Path("run.yaml"))


def mirrored(state_folder: Path, first: int, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Mirror three steps in a process of its own, as wandb keeps settings for a process's whole life."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("WANDB")}
    return subprocess.run(
        [sys.executable, "-c", PROGRAM, str(state_folder), str(first)],
        cwd=Path(__file__).parents[2],
        env=clean | {"HOME": str(state_folder)} | environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=PATIENCE,
    )


def recorded(folders: Iterable[Path], first: int) -> bool:
    """Whether the losses of three steps stand in a run's file, which holds them as text."""
    content = b"".join(path.read_bytes() for folder in folders for path in folder.glob("run-*.wandb"))
    return all(str(9.015625 - step).encode() in content for step in range(first, first + 3))


def test_a_run_without_a_project_is_not_mirrored(tmp_path: Path) -> None:
    tracker = open_tracker(run_file(None), tmp_path)
    assert type(tracker) is Tracker
    tracker.log({"loss": 1.0}, 1)
    tracker.finish()
    assert list(tmp_path.iterdir()) == []


def test_wandb_asked_for_but_not_installed_is_said_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(sys, "path", [])  # as if nothing were installed
    monkeypatch.delitem(sys.modules, "wandb", raising=False)
    tracker = open_tracker(run_file("sahaj"), tmp_path)
    assert type(tracker) is Tracker
    (record,) = caplog.records
    assert "pip install wandb" in record.getMessage()


def test_an_offline_run_is_on_disk_and_a_restart_continues_it(tmp_path: Path) -> None:
    for first in (0, 3):
        if first:
            time.sleep(1.0)  # wandb names a start's folder by the second
        done = mirrored(tmp_path, first, {"WANDB_MODE": "offline"})
        assert done.stdout.split() == ["failures", "0"], done.stderr
        assert done.stderr == ""
    identity = (tmp_path / "wandb-id").read_text()
    folders = list((tmp_path / "wandb").glob(f"offline-run-*-{identity}"))
    assert recorded(folders, 0)
    assert recorded(folders, 3)
    assert not recorded(folders, 6)
    assert not any(b"secret" in path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())


NO_SERVER = {"WANDB_API_KEY": "0" * 40, "WANDB_BASE_URL": "http://127.0.0.1:9"}


@pytest.mark.parametrize("environment", [{}, NO_SERVER], ids=["no key", "no server"])
def test_without_a_key_or_a_server_figures_are_kept_on_disk(tmp_path: Path, environment: dict[str, str]) -> None:
    done = mirrored(tmp_path, 0, environment)
    assert done.stdout.split() == ["failures", "0"], done.stderr
    assert "`wandb sync` sends them" in done.stderr
    assert recorded((tmp_path / "wandb").glob("offline-run-*"), 0)


def test_a_mirror_that_cannot_start_is_not_waited_for_and_said_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "taken").write_text("a file where the folder should be")
    with caplog.at_level(logging.WARNING):
        tracker = open_tracker(run_file("sahaj"), tmp_path / "taken")
        for step in range(20_000):  # more than are held
            tracker.log({"loss": 1.0}, step)
        tracker.finish()
    assert tracker.failures > 10_000 - 1
    assert len([record for record in caplog.records if "wandb failed" in record.getMessage()]) == 1
