"""Which checkpoints are kept, and which are removed."""

import os
from pathlib import Path

import pytest

from coordinator.checkpoints.checkpoint import list_checkpoints
from coordinator.checkpoints.retention import checkpoints_to_remove, prune
from tests.coordinator.checkpoints.conftest import Save


@pytest.mark.parametrize(
    ("steps", "newest", "removed"),
    [
        ([], 3, []),
        ([5], 1, []),
        ([10, 5, 20, 15], 2, [5, 10]),
        ([1, 2, 3], 3, []),
        ([9, 10, 100], 1, [9, 10]),
    ],
)
def test_the_newest_checkpoints_are_kept(steps: list[int], newest: int, removed: list[int]) -> None:
    assert checkpoints_to_remove(dict.fromkeys(steps), newest) == removed


@pytest.mark.parametrize(
    ("losses", "removed"),
    [
        ({1: 9.0, 2: 3.0, 3: 4.0, 4: 5.0}, [1, 3]),
        ({1: 9.0, 2: None, 3: float("nan"), 4: 5.0}, [1, 2, 3]),
        ({1: 3.0, 2: 3.0, 3: 4.0}, [1]),
        ({1: None, 2: None}, [1]),
    ],
)
def test_the_best_checkpoint_is_kept(losses: dict[int, float | None], removed: list[int]) -> None:
    assert checkpoints_to_remove(losses, 1) == removed


def test_the_first_checkpoint_of_each_span_is_kept() -> None:
    """With a checkpoint every 30 global steps, 100 is reached at 120, 200 at 210 and 300 at 300."""
    steps = dict.fromkeys(range(30, 361, 30))
    assert set(steps) - set(checkpoints_to_remove(steps, 1, every=100)) == {120, 210, 300, 360}


def test_what_is_kept_does_not_depend_on_when_older_ones_went() -> None:
    there: dict[int, float | None] = {}
    for step in range(30, 361, 30):
        there[step] = 9.0 - step / 100 if step < 200 else 8.0
        for gone in checkpoints_to_remove(there, 2, every=100):
            del there[gone]
    assert sorted(there) == [120, 180, 210, 300, 330, 360]


def test_pruning_counts_only_whole_checkpoints_as_kept(tmp_path: Path, save: Save) -> None:
    for step in (1, 2, 3, 4, 5, 6):
        save(step)
    (tmp_path / "checkpoint-1" / "model.safetensors").unlink()
    for step, name in ((4, "model.safetensors"), (6, "optimizer.pt")):
        path = tmp_path / f"checkpoint-{step}" / name
        os.truncate(path, path.stat().st_size - 100)
    removed = prune(tmp_path, list_checkpoints(tmp_path), newest=2)
    assert [path.name for path in removed] == ["checkpoint-1", "checkpoint-2"]
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"checkpoint-{step}" for step in (3, 4, 5, 6)]


def test_pruning_keeps_the_best_and_the_milestones(tmp_path: Path, save: Save) -> None:
    for step, loss in ((1, 5.0), (2, 3.0), (3, 4.0), (4, 4.0), (5, 4.5), (6, 4.2)):
        save(step, loss=loss)
    (tmp_path / "checkpoint-3" / "model.safetensors").unlink()
    prune(tmp_path, list_checkpoints(tmp_path), newest=1, every=4)
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"checkpoint-{step}" for step in (2, 4, 6)]


def test_pruning_a_folder_of_broken_checkpoints_removes_nothing(tmp_path: Path, save: Save) -> None:
    for step in (1, 2):
        (save(step) / "model.safetensors").unlink()
    assert prune(tmp_path, list_checkpoints(tmp_path), newest=1) == []
