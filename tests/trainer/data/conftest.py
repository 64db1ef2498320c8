import json
from pathlib import Path

import pytest
from transformers import PreTrainedTokenizerFast

from swarm.run_file import RunFile
from tokenizer.training import train_tokenizer


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
