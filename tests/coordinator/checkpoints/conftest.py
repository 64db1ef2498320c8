"""Checkpoints of a small model, saved when a test asks for them."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from transformers import PreTrainedTokenizerFast

from coordinator.checkpoints.checkpoint import TrainerState
from coordinator.checkpoints.store import save_checkpoint
from swarm.run_file import RunFile
from trainer.data import Batch
from trainer.model import PretrainingModel

STATE = TrainerState(
    run="test-run",
    step=1,
    samples=64,
    eval_loss=4.5,
    saved_at="2026-01-01T00:00:00+00:00",
    fingerprint="0123456789abcdef",
    software="0.1.0",
)
Save = Callable[..., Path]


@pytest.fixture
def save(
    tmp_path: Path,
    model: PretrainingModel,
    batches: list[Batch],
    tokenizer: PreTrainedTokenizerFast,
    run: RunFile,
) -> Save:
    optimizer = torch.optim.AdamW(model.parameters())
    model(batches[0]).loss.backward()
    optimizer.step()

    def save_step(step: int, folder: Path = tmp_path, loss: float | None = STATE.eval_loss) -> Path:
        return save_checkpoint(
            folder,
            model=model,
            tokenizer=tokenizer,
            optimizer_state=optimizer.state_dict(),
            run=run,
            state=replace(STATE, step=step, eval_loss=loss),
        )

    return save_step
