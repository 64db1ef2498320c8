import logging
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from coordinator.tracking.tracker import open_tracker
from swarm.errors import RunFileError
from swarm.run_file import RunFile, parse_run

MIRRORS = [("wandb", {"wandb_project": "sahaj"}), ("trackio", {"trackio": "river/figures"})]


def run_file(**coordinator: Any) -> RunFile:
    content = {"name": "test-run", "data": {"train": [{"path": "x.txt"}]}, "coordinator": coordinator}
    return parse_run(content, Path("run.yaml"))


def test_a_run_that_names_no_service_is_not_mirrored(tmp_path: Path) -> None:
    tracker = open_tracker(run_file(), tmp_path)
    tracker.log({"loss": 1.0}, 1)
    tracker.finish()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("name", "settings"), MIRRORS)
def test_a_service_asked_for_but_not_installed_is_said_in_one_line(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    name: str,
    settings: dict[str, str],
) -> None:
    monkeypatch.setattr(sys, "path", [])  # as if nothing were installed
    monkeypatch.delitem(sys.modules, name, raising=False)
    tracker = open_tracker(run_file(**settings), tmp_path)
    tracker.log({"loss": 1.0}, 1)
    tracker.finish()
    (record,) = caplog.records
    assert f"pip install {name}" in record.getMessage()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("name", "settings"), MIRRORS)
def test_a_mirror_that_cannot_start_is_not_waited_for_and_said_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, name: str, settings: dict[str, str]
) -> None:
    pytest.importorskip(name)
    (tmp_path / "taken").write_text("a file where the folder should be")
    with caplog.at_level(logging.WARNING):
        tracker = open_tracker(run_file(**settings), tmp_path / "taken")
        for step in range(20_000):  # more than are held
            tracker.log({"loss": 1.0}, step)
        tracker.finish()
        for thread in threading.enumerate():
            if thread.name == name:  # with a full queue nobody waits for it, and its one line may come after the end
                thread.join()
    assert len([record for record in caplog.records if f"{name} failed" in record.getMessage()]) == 1


@pytest.mark.parametrize(
    "where",
    ["river", "ftp://river", "river/figures/two", "https://", "", "https://river/?write_token=a", "https://a:b@river"],
)
def test_a_run_file_names_a_space_or_a_url(where: str) -> None:
    with pytest.raises(RunFileError, match="trackio"):
        run_file(trackio=where)
