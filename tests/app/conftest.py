from pathlib import Path

import pytest
from transformers import PreTrainedTokenizerFast

from coordinator.checkpoints.checkpoint import TrainerState
from coordinator.checkpoints.store import save_checkpoint
from swarm.run_file import RunFile, parse_run
from tokenizer.training import train_tokenizer
from trainer.model import build_model

SENTENCES = [
    "The river carries the boats down to the sea.",
    "Many small boats together carry more than one large ship.",
    "Nobody on the river knows all the others.",
]


@pytest.fixture(scope="session")
def run() -> RunFile:
    shape = {"hidden_size": 16, "embedding_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2}
    content = {
        "name": "river-run",
        "model": {**shape, "intermediate_size": 32},
        "tokenizer": {"vocab_size": 96},
        "data": {"train": [{"path": "river.txt"}], "max_length": 64},
    }
    return parse_run(content, Path("run.yaml"))


@pytest.fixture(scope="session")
def tokenizer(run: RunFile) -> PreTrainedTokenizerFast:
    return train_tokenizer(run, SENTENCES * 20)


@pytest.fixture(scope="session")
def checkpoint(run: RunFile, tokenizer: PreTrainedTokenizerFast, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small one, which was not trained."""
    state = TrainerState(
        "river-run",
        120,
        30_720,
        5.25,
        "2026-01-01T00:00:00+00:00",
        "0123456789abcdef",
        "0.1.0",
        unigram_loss=7.0,
        below_unigram=1.75,
    )
    return save_checkpoint(
        tmp_path_factory.mktemp("checkpoints"),
        model=build_model(run, tokenizer),
        tokenizer=tokenizer,
        optimizer_state={"state": {}},
        run=run,
        state=state,
    )
