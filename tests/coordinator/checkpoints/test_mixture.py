"""Checkpoints of a run with experts: an ordinary model, and beside it what leads to experts and back."""

from pathlib import Path

import pytest
import torch
from transformers import AutoModelForPreTraining, PreTrainedTokenizerFast

from coordinator.checkpoints.checkpoint import CheckpointError, check
from coordinator.checkpoints.store import load_checkpoint, restore_model, save_checkpoint
from swarm.run_file import ExpertsSection, RunFile
from tests.coordinator.checkpoints.conftest import STATE
from trainer.model import PretrainingModel, build_model


@pytest.fixture
def with_experts(run: RunFile) -> RunFile:
    return run.model_copy(update={"experts": ExpertsSection(grid=[2, 2], width=4, hidden=8)})


@pytest.fixture
def trained(with_experts: RunFile, tokenizer: PreTrainedTokenizerFast) -> PretrainingModel:
    model = build_model(with_experts, tokenizer)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1)
    return model


@pytest.fixture
def saved(tmp_path: Path, trained: PretrainingModel, tokenizer: PreTrainedTokenizerFast, with_experts: RunFile) -> Path:
    return save_checkpoint(
        tmp_path, model=trained, tokenizer=tokenizer, optimizer_state={}, run=with_experts, state=STATE
    )


def test_it_is_an_ordinary_model_for_everybody_else(saved: Path, trained: PretrainingModel) -> None:
    loaded, told = AutoModelForPreTraining.from_pretrained(saved, output_loading_info=True)
    assert not any(told.values())
    for name, parameter in loaded.named_parameters():
        assert torch.equal(parameter, trained.get_parameter(name)), name


def test_a_run_goes_on_with_all_of_it(
    saved: Path, trained: PretrainingModel, with_experts: RunFile, tokenizer: PreTrainedTokenizerFast
) -> None:
    again = build_model(with_experts, tokenizer)
    restore_model(again, load_checkpoint(saved).model_state)
    for name, parameter in again.named_parameters():
        assert torch.equal(parameter, trained.get_parameter(name)), name


def test_a_checkpoint_that_lacks_it_is_broken(saved: Path) -> None:
    (saved / "mixture.safetensors").unlink()
    with pytest.raises(CheckpointError, match=r"mixture\.safetensors"):
        check(saved)
