"""A checkpoint of a ModernBERT is released, loaded by plain Transformers, and fine-tuned."""

from pathlib import Path

import pytest
import torch
from rich.console import Console
from transformers import AutoModelForMaskedLM, AutoTokenizer, PreTrainedTokenizerFast, pipeline

from coordinator.checkpoints.checkpoint import Checkpoint, TrainerState
from coordinator.checkpoints.store import save_checkpoint
from coordinator.release.build import make_release
from downstream.data.loading import DataOptions
from downstream.finetune import finetune
from downstream.tasks import TASKS
from swarm.files import write_file
from swarm.run_file import RunFile, parse_run
from tests.downstream.conftest import MAX_LENGTH, QUICK
from tokenizer.loading import load_tokenizer
from trainer.model import build_model

STATE = TrainerState("nodi", 5, 320, 5.0, "2026-01-01T00:00:00+00:00", "digest", "0.1.0", perplexity=148.4)


@pytest.fixture
def run(tokenizer: PreTrainedTokenizerFast, tmp_path: Path) -> RunFile:
    tokenizer.save_pretrained(tmp_path / "tokenizer")
    shape = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
    content = {
        "name": "nodi",
        "language": "en",
        "model": {"architecture": "modernbert", **shape},
        "tokenizer": {"vocab_size": 260},
        "data": {"train": [{"path": "text.jsonl"}], "max_length": MAX_LENGTH},
    }
    return parse_run(content, tmp_path / "run.yaml")


def test_a_released_modernbert_is_a_plain_one_and_learns_a_task(run: RunFile, entities: DataOptions, tmp_path: Path):
    tokenizer = load_tokenizer(run)
    model = build_model(run, tokenizer)
    path = save_checkpoint(
        tmp_path / "checkpoints", model=model, tokenizer=tokenizer, optimizer_state={}, run=run, state=STATE
    )
    release = make_release(run, Checkpoint(path, 5, STATE), "asha/nodi", record=None, also={}, tags=())
    released = tmp_path / "released"
    for name, content in release.files.items():
        write_file(released / name, content if isinstance(content, bytes) else content.read_bytes())

    card = (released / "README.md").read_text()
    assert "The model is a ModernBERT with" in card and "- modernbert" in card and "ModernBERT, 2 layers |" in card
    assert "ALBERT" not in card and "order" not in card

    loaded, reader = AutoModelForMaskedLM.from_pretrained(released), AutoTokenizer.from_pretrained(released)
    assert type(loaded).__name__ == "ModernBertForMaskedLM"
    assert all(torch.equal(one, dict(model.named_parameters())[name]) for name, one in loaded.named_parameters())
    assert set(reader("নদী")) == {"input_ids", "attention_mask"}
    assert len(pipeline("fill-mask", model=loaded, tokenizer=reader)(f"নদী {reader.mask_token}")) == 5

    tuned = tmp_path / "tuned"
    results = finetune(TASKS["ner"](), str(released), entities, QUICK, out=tuned, console=Console(quiet=True))
    assert results.models[0].test("f1").mean > 0.9
    assert pipeline("token-classification", str(tuned))("বেগম নদী")
