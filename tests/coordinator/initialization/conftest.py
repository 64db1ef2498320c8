"""A small trained model, and two tokenizers that share some of their tokens."""

from collections.abc import Callable
from pathlib import Path
from pydoc_data.topics import topics
from typing import Any

import pytest
import torch
from transformers import PreTrainedTokenizerFast

from swarm.files import write_file
from swarm.run_file import RunFile, parse_run
from tests.support.hub.stand_in import hub_stand_in as hub_stand_in
from tokenizer.training import train_tokenizer
from trainer.model import PretrainingModel, build_model

TOPICS = [topics[name] for name in sorted(topics)]
LENGTH = 32  # tokens that a run's samples have
MakeRun = Callable[..., RunFile]


@pytest.fixture
def make_run(tmp_path: Path) -> MakeRun:
    """`make_run("../old", num_hidden_layers=3)`: a run that begins with a model; its text is English."""
    write_file(tmp_path / "text.txt", "\n".join(" ".join(text.split()) for text in TOPICS[:20]))

    def make(start_from: str | None, *, max_length: int = LENGTH, **shape: Any) -> RunFile:
        return parse_run(content(start_from=start_from, **shape) | data(max_length), tmp_path / "run.yaml")

    return make


@pytest.fixture(scope="session")
def old_tokenizer() -> PreTrainedTokenizerFast:
    """Of the trained model."""
    return train_tokenizer(parse_run(content() | data(2 * LENGTH), Path("run.yaml")), TOPICS[20:40])


@pytest.fixture(scope="session")
def tokenizer() -> PreTrainedTokenizerFast:
    """Of the run."""
    return train_tokenizer(parse_run(content() | data(LENGTH), Path("run.yaml")), TOPICS[:20])


@pytest.fixture(scope="session")
def old_model(old_tokenizer: PreTrainedTokenizerFast) -> PretrainingModel:
    """It has twice as many positions as the run needs; that it was trained shows in each of its numbers."""
    model = build_model(parse_run(content(seed=1) | data(2 * LENGTH), Path("run.yaml")), old_tokenizer)
    with torch.random.fork_rng(), torch.no_grad():
        torch.manual_seed(2)
        for parameter in model.parameters():
            parameter.add_(torch.randn(parameter.shape), alpha=0.1)
    return model


@pytest.fixture(scope="session")
def old(
    old_model: PretrainingModel, old_tokenizer: PreTrainedTokenizerFast, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """The trained model in a folder; nobody may change it."""
    folder = tmp_path_factory.mktemp("old") / "checkpoint-100"
    old_model.save_pretrained(folder)
    old_tokenizer.save_pretrained(folder)
    return folder


MODERNBERT = {"architecture": "modernbert", "embedding_size": None}


def content(**model: Any) -> dict[str, Any]:
    """A run file without its text, and without keys that are None."""
    shape = {
        "hidden_size": 32,
        "embedding_size": 16,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 64,
    }
    given = {key: value for key, value in (shape | model).items() if value is not None}
    return {"name": "new-run", "model": given, "tokenizer": {"vocab_size": 400}}


def data(max_length: int) -> dict[str, Any]:
    """The part of a run file about text."""
    return {"data": {"train": [{"path": "text.txt"}], "max_length": max_length}}
