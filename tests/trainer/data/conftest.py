import json
from pathlib import Path
from pydoc_data.topics import topics

import pytest
from transformers import PreTrainedTokenizerFast

from swarm.run_file import RunFile, parse_run
from tokenizer.training import train_tokenizer


@pytest.fixture(scope="session")
def run() -> RunFile:
    return parse_run(
        {
            "name": "test-run",
            "tokenizer": {"vocab_size": 1000},
            "data": {"train": [{"path": "text.txt"}], "max_length": 64, "validation_samples": 40},
        },
        Path("run.yaml"),
    )


@pytest.fixture(scope="session")
def documents() -> list[str]:
    """Real English text: the chapters of Python's reference, some of them long."""
    return [topics[name] for name in sorted(topics)][:30]


@pytest.fixture(scope="session")
def tokenizer(run: RunFile, documents: list[str]) -> PreTrainedTokenizerFast:
    return train_tokenizer(run, documents)


@pytest.fixture(scope="session")
def bengali_documents(bengali: Path) -> list[str]:
    with (bengali / "train.jsonl").open(encoding="utf-8") as lines:
        return [json.loads(line)["text"] for line, _ in zip(lines, range(200), strict=False)]


@pytest.fixture(scope="session")
def bengali_run(run: RunFile) -> RunFile:
    return run.model_copy(update={"language": "bn"})


@pytest.fixture(scope="session")
def bengali_tokenizer(bengali_run: RunFile, bengali_documents: list[str]) -> PreTrainedTokenizerFast:
    return train_tokenizer(bengali_run, bengali_documents)
