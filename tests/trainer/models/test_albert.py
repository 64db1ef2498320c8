"""ALBERT's configuration, and the positions with which it begins."""

import pytest
import torch
from transformers import PreTrainedTokenizerFast

from swarm.run_file import RunFile
from trainer.models.albert import albert_config, build_albert, sinusoids


def test_the_configuration_follows_tokenizer_and_run_file(run: RunFile, tokenizer: PreTrainedTokenizerFast) -> None:
    config = albert_config(run, tokenizer)
    assert config.vocab_size == len(tokenizer)
    assert config.max_position_embeddings == 64
    assert config.num_hidden_layers == 3
    assert (config.pad_token_id, config.bos_token_id, config.eos_token_id) == (
        tokenizer.pad_token_id,
        tokenizer.cls_token_id,
        tokenizer.sep_token_id,
    )


def test_positions_begin_as_sinusoids_that_one_matrix_shifts() -> None:
    rows = sinusoids(40, 16, size=0.1)
    assert rows.shape == (40, 16)
    assert torch.allclose(sinusoids(40, 7, size=0.1)[:, :2], sinusoids(40, 8, size=0.1)[:, :2]), "an odd width, too"
    assert rows.square().mean().sqrt() == pytest.approx(0.1, rel=0.01)
    shift = torch.linalg.lstsq(rows[:-3].double(), rows[3:].double()).solution
    assert torch.allclose(rows[:-3].double() @ shift, rows[3:].double(), atol=1e-4)


def test_the_model_begins_with_them(run: RunFile, tokenizer: PreTrainedTokenizerFast) -> None:
    weights = build_albert(run, tokenizer).albert.embeddings.position_embeddings.weight
    assert torch.equal(weights, sinusoids(*weights.shape, size=run.model.initializer_range))
