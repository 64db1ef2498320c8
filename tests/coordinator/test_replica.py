"""The coordinator's replica: a state from a checkpoint, and a log that is older than a release."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from averaging.log.disk import LOG_FILE
from averaging.log.entry_file import EntryFile, Record
from averaging.log.header import Entry
from averaging.log.state import Layout, State
from coordinator.checkpoints.checkpoint import CheckpointError, TrainerState
from coordinator.checkpoints.store import LoadedCheckpoint
from coordinator.replica import saved, set_older_log_aside, state_of
from tests.averaging.log.headers import chain_of

LAYOUT = Layout(("a", "b"), ((2, 3), (4,)))


def write_log(path: Path, *entries: Entry) -> None:
    EntryFile(path).append([Record(entry, is_applied=True) for entry in entries])


def checkpoint(state: State) -> LoadedCheckpoint:
    tensors = dict(zip(LAYOUT.names, LAYOUT.views(state.parameters), strict=True))
    told = TrainerState("run", state.step, 0, None, "", "", "")
    return LoadedCheckpoint(tensors, saved(state), told)


def test_a_state_comes_back_from_its_checkpoint():
    vectors = [torch.rand(10) for _ in range(3)]
    state = State(step=7, updates=6, parameters=vectors[0], moments=(vectors[1], vectors[2]))
    found = state_of(checkpoint(state), LAYOUT)
    assert (found.step, found.updates) == (7, 6)
    for ours, theirs in zip((state.parameters, *state.moments), (found.parameters, *found.moments), strict=True):
        assert torch.equal(ours, theirs)


def test_a_checkpoint_of_another_model_or_optimizer_is_refused_in_one_line():
    state = State(step=7, updates=6, parameters=torch.rand(10), moments=(torch.rand(10), torch.rand(10)))
    other = Layout(("a", "b"), ((3, 2), (4,)))
    with pytest.raises(CheckpointError, match="checkpoint-7 does not fit the run"):
        state_of(checkpoint(state), other)
    old = replace(checkpoint(state), optimizer_state={"version": 2, "state": {}})
    with pytest.raises(CheckpointError, match="checkpoint-7 does not fit the run"):
        state_of(old, LAYOUT)


def test_only_a_log_that_ends_before_the_release_is_set_aside(tmp_path: Path):
    state = State(step=2, updates=2, parameters=torch.rand(10), moments=(torch.rand(10), torch.rand(10)))
    folder = tmp_path / "log"
    assert set_older_log_aside(folder, checkpoint(state)) is None  # there is none
    folder.mkdir()
    write_log(folder / LOG_FILE, *chain_of(2))
    newer = set_older_log_aside(folder, checkpoint(state))
    assert newer is not None and newer.parent == tmp_path and not folder.exists()
    folder.mkdir()
    write_log(folder / LOG_FILE, *chain_of(3))
    assert set_older_log_aside(folder, checkpoint(state)) is None and folder.exists()
