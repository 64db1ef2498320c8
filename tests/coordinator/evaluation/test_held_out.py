"""The batches of the held-out evaluation."""

from pathlib import Path
from pydoc_data.topics import topics

import pytest
import torch
from transformers import PreTrainedTokenizerFast

from coordinator.evaluation.held_out import held_out_batches
from swarm.errors import DataError
from swarm.run_file import RunFile, parse_run
from tokenizer.training import train_tokenizer

DOCUMENTS = [topics[name] for name in sorted(topics)][:30]


@pytest.fixture(scope="module")
def run() -> RunFile:
    content = {
        "name": "test-run",
        "tokenizer": {"vocab_size": 1000},
        "data": {
            "train": [{"path": "text.txt"}],
            "max_length": 64,
            "validation_samples": 40,
            "masked_fraction": 0.5,
            "short_sample_probability": 1.0,
        },
    }
    return parse_run(content, Path("run.yaml"))


@pytest.fixture(scope="module")
def tokenizer(run: RunFile) -> PreTrainedTokenizerFast:
    return train_tokenizer(run, DOCUMENTS)


def test_they_are_the_same_for_everyone(run: RunFile, tokenizer: PreTrainedTokenizerFast) -> None:
    first, again = (held_out_batches(run, DOCUMENTS, tokenizer, 16) for _ in range(2))
    assert [batch.samples for batch in first] == [16, 16, 8]
    for one, other in zip(first, again, strict=True):
        for field in ("input_ids", "token_type_ids", "sentence_order_label", "masked_positions", "masked_labels"):
            assert torch.equal(getattr(one, field), getattr(other, field))


def test_15_percent_are_masked_whatever_is_trained_on(run: RunFile, tokenizer: PreTrainedTokenizerFast) -> None:
    batches = held_out_batches(run, DOCUMENTS, tokenizer, 16)
    masked, tokens = sum(batch.masked for batch in batches), sum(batch.tokens for batch in batches)
    assert masked == pytest.approx(0.15 * tokens, rel=0.1)


def test_sources_without_text_are_an_error(run: RunFile, tokenizer: PreTrainedTokenizerFast) -> None:
    with pytest.raises(DataError, match=r"data\.validation"):
        held_out_batches(run, ["", "Hi."], tokenizer, 16)
