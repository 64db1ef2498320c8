from pathlib import Path
from pydoc_data.topics import topics

import numpy as np
import pytest
from transformers import PreTrainedTokenizerFast

from coordinator.evaluation.held_out import held_out_batches
from swarm.run_file import RunFile, parse_run
from tokenizer.training import train_tokenizer
from trainer.data import Batch
from trainer.data.batch import Collator
from trainer.data.instances import Instance


@pytest.fixture(scope="session")
def run() -> RunFile:
    return parse_run(
        {
            "name": "test-run",
            "tokenizer": {"vocab_size": 1000},
            "data": {"train": [{"path": "text.txt"}], "max_length": 64, "validation_samples": 32},
            "model": {
                "hidden_size": 64,
                "embedding_size": 16,
                "num_hidden_layers": 3,
                "num_attention_heads": 4,
                "intermediate_size": 128,
            },
        },
        Path("run.yaml"),
    )


@pytest.fixture(scope="session", params=["albert", "albert without the order", "modernbert"])
def either(request: pytest.FixtureRequest, run: RunFile) -> RunFile:
    """The same run with each kind of model."""
    content = run.model_dump()
    if request.param == "modernbert":
        content["model"]["architecture"] = request.param
        del content["model"]["embedding_size"], content["model"]["sentence_order"]
    else:
        content["model"]["sentence_order"] = request.param == "albert"
    return parse_run(content, Path("run.yaml"))


@pytest.fixture(scope="session")
def documents() -> list[str]:
    """Real English text: the chapters of Python's reference, some of them long."""
    return [topics[name] for name in sorted(topics)][:30]


@pytest.fixture(scope="session")
def tokenizer(run: RunFile, documents: list[str]) -> PreTrainedTokenizerFast:
    return train_tokenizer(run, documents)


@pytest.fixture(scope="session")
def full(run: RunFile, documents: list[str], tokenizer: PreTrainedTokenizerFast) -> Batch:
    """A batch without padding."""
    tokens = [tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"] for text in documents]
    long = [text for text in tokens if len(text) >= 61][:4]
    instances = [Instance(text[:30], text[30:61], swapped=False) for text in long[:2]]
    instances += [Instance(text[20:61], text[:20], swapped=True) for text in long[2:]]
    return Collator(tokenizer, run.data)(instances, np.random.default_rng(0))


@pytest.fixture(scope="session")
def padded(run: RunFile, documents: list[str], tokenizer: PreTrainedTokenizerFast) -> Batch:
    """A batch in which some samples are padded."""
    batches = held_out_batches(run, [document[:150] for document in documents], tokenizer, 8)
    return next(batch for batch in batches if batch.tokens < batch.input_ids.numel())


@pytest.fixture(params=["full", "padded"])
def batch(request: pytest.FixtureRequest) -> Batch:
    """Each of the two."""
    found: Batch = request.getfixturevalue(request.param)
    assert (found.attention_mask is None) == (request.param == "full")
    return found
