"""ModernBERT's configuration and its windows; `tests/trainer/test_model.py` has what is true of each model."""

import pytest
import torch
from transformers import ModernBertForMaskedLM, PreTrainedTokenizerFast

from averaging.log.state import Layout
from swarm.run_file import RunFile, parse_run
from trainer.data import Batch
from trainer.models.modernbert import ModernBertPretraining, modernbert_config

WINDOW = 16  # places that a local layer sees; samples have 64


@pytest.fixture(scope="module")
def modern(run: RunFile) -> RunFile:
    content = run.model_dump(exclude={"model": {"embedding_size", "sentence_order"}})
    content["model"] |= {"architecture": "modernbert", "num_hidden_layers": 4, "initializer_range": 0.1}
    return parse_run(content, run.folder / "run.yaml")


def test_local_layers_see_a_window_as_those_of_transformers_do(
    batch: Batch, modern: RunFile, tokenizer: PreTrainedTokenizerFast
) -> None:
    config = modernbert_config(modern, tokenizer)
    losses = {}
    for window in (WINDOW, 128):
        config.local_attention = window
        torch.manual_seed(0)
        model = ModernBertPretraining(config)
        stock = ModernBertForMaskedLM(type(config)(**config.to_diff_dict()))
        stock.load_state_dict(model.state_dict())
        labels = torch.full_like(batch.input_ids, -100)
        labels.view(-1)[batch.masked_positions] = batch.masked_labels
        theirs = stock(input_ids=batch.input_ids, attention_mask=batch.attention_mask, labels=labels).loss
        losses[window] = model(batch).loss.item()
        assert losses[window] == pytest.approx(theirs.item(), rel=1e-6)
    assert abs(losses[WINDOW] - losses[128]) > 1e-4


def test_padding_that_sees_no_token_spoils_no_gradient(
    modern: RunFile, tokenizer: PreTrainedTokenizerFast, padded: Batch
) -> None:
    config = modernbert_config(modern, tokenizer)
    config.local_attention = 8
    model = ModernBertPretraining(config)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = model(padded).loss
    loss.backward()
    assert all(one.grad is None or one.grad.isfinite().all() for one in model.parameters())


def test_the_configuration_follows_tokenizer_and_run_file(modern: RunFile, tokenizer: PreTrainedTokenizerFast) -> None:
    config = modernbert_config(modern, tokenizer)
    assert (config.vocab_size, config.max_position_embeddings) == (len(tokenizer), 64)
    assert (config.hidden_size, config.intermediate_size, config.num_attention_heads) == (64, 128, 4)
    assert config.pad_token_id == tokenizer.pad_token_id
    assert config.cls_token_id == config.bos_token_id == tokenizer.cls_token_id
    assert config.sep_token_id == config.eos_token_id == tokenizer.sep_token_id


def test_matrices_of_layers_and_head_are_muons_and_embeddings_are_not(
    modern: RunFile, tokenizer: PreTrainedTokenizerFast
) -> None:
    model = ModernBertPretraining(modernbert_config(modern, tokenizer))
    layout = Layout.of(model.named_parameters(), has_muon=True)
    others = [name for name, is_matrix in zip(layout.names, layout.matrices, strict=True) if not is_matrix]
    assert [name for name in others if "norm" not in name] == ["model.embeddings.tok_embeddings.weight", "decoder.bias"]
