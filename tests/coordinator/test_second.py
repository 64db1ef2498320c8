"""A second coordinator in the state folder of one that runs."""

from pathlib import Path

import pytest
from transformers import PreTrainedTokenizerFast

from coordinator.main import CoordinatorOptions, coordinate
from coordinator.state_folder import IDENTITY, LEDGER
from swarm.errors import SwarmError
from swarm.identity import load_identity
from swarm.run_file import RunFile


def test_it_leaves_the_ledger_alone(
    run: RunFile, tokenizer: PreTrainedTokenizerFast, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would upgrade it, or put a copy in its place."""
    monkeypatch.setattr("coordinator.main.keep_private", lambda folder: None)  # for all files of this process
    monkeypatch.setattr("coordinator.main.load_tokenizer", lambda run: tokenizer)
    run = run.model_copy(update={"access": run.access.model_copy(update={"open": True})})
    first = load_identity(tmp_path / IDENTITY)
    with pytest.raises(SwarmError, match="another process on this machine is this peer"):
        coordinate(run, CoordinatorOptions(tmp_path, Path("run.yaml")), print)
    assert not (tmp_path / LEDGER).exists()
    first.lock.close()
