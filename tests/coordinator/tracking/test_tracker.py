import logging
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from coordinator.tracking.tracker import open_tracker
from swarm.run_file import RunFile, parse_run


def run_file(**coordinator: Any) -> RunFile:
    content = {"name": "test-run", "data": {"train": [{"path": "x.txt"}]}, "coordinator": coordinator}
    return parse_run(content, Path("run.yaml"))


def test_a_run_that_names_no_service_is_not_mirrored(tmp_path: Path) -> None:
    tracker = open_tracker(run_file(), tmp_path)
    tracker.log({"loss": 1.0}, 1)
    tracker.finish()
    assert list(tmp_path.iterdir()) == []


def test_a_service_asked_for_but_not_installed_is_said_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(sys, "path", [])  # as if nothing were installed
    monkeypatch.delitem(sys.modules, "wandb", raising=False)
    tracker = open_tracker(run_file(wandb_project="sahaj"), tmp_path)
    tracker.log({"loss": 1.0}, 1)
    tracker.finish()
    (record,) = caplog.records
    assert "pip install wandb" in record.getMessage()
    assert list(tmp_path.iterdir()) == []


def test_a_mirror_that_cannot_start_is_not_waited_for_and_said_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    pytest.importorskip("wandb")
    (tmp_path / "taken").write_text("a file where the folder should be")
    with caplog.at_level(logging.WARNING):
        tracker = open_tracker(run_file(wandb_project="sahaj"), tmp_path / "taken")
        for step in range(20_000):  # more than are held
            tracker.log({"loss": 1.0}, step)
        tracker.finish()
        for thread in threading.enumerate():
            if thread.name == "wandb":  # with a full queue nobody waits for it, and its one line may come after the end
                thread.join()
    assert len([record for record in caplog.records if "wandb failed" in record.getMessage()]) == 1
