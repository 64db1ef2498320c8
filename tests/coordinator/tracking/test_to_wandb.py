import os
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.support.waiting import PATIENCE

pytest.importorskip("wandb")

PROGRAM = """
import logging, sys
from pathlib import Path
from coordinator.tracking import to_wandb
from coordinator.tracking.tracker import open_tracker
from swarm.run_file import parse_run

to_wandb.START_SECONDS = 1.0
logging.basicConfig(format="%(message)s")
section = {"wandb_project": "sahaj", "ledger": "postgresql://asha:secret@host/ledger"}
content = {"name": "test-run", "data": {"train": [{"path": "x.txt"}]}, "coordinator": section}
tracker = open_tracker(parse_run(content, Path("run.yaml")), Path(sys.argv[1]))
for step in range(int(sys.argv[2]), int(sys.argv[2]) + 3):
    tracker.log({"loss": 9.015625 - step, "samples": 32.0}, step)
tracker.finish(timeout=120)
"""


def mirrored(state_folder: Path, first: int, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Mirror three steps in a process of its own, as wandb keeps settings for a process's whole life."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("WANDB")}
    return subprocess.run(
        [sys.executable, "-c", PROGRAM, str(state_folder), str(first)],
        cwd=Path(__file__).parents[3],
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


def test_an_offline_run_is_on_disk_and_a_restart_continues_it(tmp_path: Path) -> None:
    for first in (0, 3):
        if first:
            time.sleep(1.0)  # wandb names a start's folder by the second
        done = mirrored(tmp_path, first, {"WANDB_MODE": "offline"})
        assert (done.stdout, done.stderr) == ("", "")
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
    assert "wandb failed" not in done.stderr
    assert "`wandb sync` sends them" in done.stderr
    assert recorded((tmp_path / "wandb").glob("offline-run-*"), 0)
