"""A short run from the first step to the last, and what becomes of its checkpoint."""

import subprocess
import sys
from collections.abc import Callable

import pytest
import torch

from coordinator.checkpoints.checkpoint import newest_checkpoint
from tests.support.small_swarm import CONTRIBUTED, SmallSwarm, text_of
from tests.support.waiting import PATIENCE

pytestmark = pytest.mark.swarm
STEPS = 3


@pytest.mark.parametrize("architecture", ["albert", pytest.param("modernbert", marks=pytest.mark.faults)])
def test_a_finished_run_leaves_a_model_that_transformers_loads(
    small_swarm: Callable[..., SmallSwarm], architecture: str
):
    model = {} if architecture == "albert" else {"architecture": architecture, "embedding_size": None}
    swarm = small_swarm(total_steps=STEPS, target_batch_size=1024, model=model)
    trainer = swarm.trainer("asha", by_command=True)
    assert trainer.process.wait(PATIENCE) == 0
    (contributed,) = (int(samples.replace(",", "")) for samples in trainer.said(CONTRIBUTED))
    assert "That was your 1,000th sample here." in text_of(trainer)
    folder = swarm.state / "checkpoints"
    swarm.wait((folder / f"checkpoint-{STEPS}").is_dir, "last checkpoint")
    newest = newest_checkpoint(folder)
    assert newest is not None and newest.step == STEPS
    assert newest.state.eval_loss is not None
    assert (newest.state.sentence_order_accuracy is None) == (architecture == "modernbert")
    swarm.wait(lambda: [one.samples for one in swarm.ledger.sessions()] == [contributed], "credit for all that it says")

    from transformers import AutoModelForMaskedLM, AutoTokenizer

    loaded = AutoModelForMaskedLM.from_pretrained(newest.path).eval()
    assert loaded.config.model_type == architecture
    tokenizer = AutoTokenizer.from_pretrained(newest.path)
    encoded = tokenizer(f"The {tokenizer.mask_token} statement is executed.", return_tensors="pt")
    (position,) = (encoded["input_ids"][0] == tokenizer.mask_token_id).nonzero()[:, 0].tolist()
    with torch.no_grad():
        scores = loaded(**encoded).logits[0, position]
    assert scores.shape == (len(tokenizer),) and torch.isfinite(scores).all()
    assert tokenizer.decode([int(scores.argmax())]) != tokenizer.unk_token

    told = subprocess.run(
        [sys.executable, "-m", "app.cli", "info", str(newest.path)],
        check=False,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert told.returncode == 0, told.stderr
    assert "AutoModelForMaskedLM" in told.stdout and swarm.run.name in told.stdout


def test_a_best_checkpoint_is_told_to_those_who_train(small_swarm: Callable[..., SmallSwarm]):
    probes = ["The [MASK] statement is executed."]
    swarm = small_swarm(total_steps=10_000, target_batch_size=256, coordinator={"probes": probes})
    trainer = swarm.trainer("asha", by_command=True)
    swarm.wait(lambda: "Best checkpoint so far: global step " in text_of(trainer), "word of the best checkpoint")
    assert " lower than guessing from word frequencies alone. It fills in: The [" in text_of(trainer)
