"""A model made cheap to train is still that of Transformers."""

import hashlib
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AlbertForPreTraining, AutoModelForMaskedLM, PreTrainedModel, PreTrainedTokenizerFast

from averaging.log.state import Layout
from averaging.optimizers.state_step import StateOptimizer, initial_state
from swarm.errors import TokenizerError
from swarm.run_file import RunFile
from tests.support.forked import runs_well
from trainer.data import Batch, BatchPrefetcher
from trainer.model import PretrainingModel, build_model, compile_layers


def hash_of_weights(model: PretrainingModel) -> str:
    return hashlib.sha256(b"".join(one.detach().numpy().tobytes() for one in model.parameters())).hexdigest()


def stock_of(model: PretrainingModel) -> PreTrainedModel:
    """Transformers' own model with its own attention and the same weights."""
    config = type(model.config)(**model.config.to_diff_dict())
    stock: PreTrainedModel = type(model).__base__(config)  # type: ignore[misc]
    stock.load_state_dict(model.state_dict())
    assert stock.config._attn_implementation == "sdpa"
    return stock


def stock_loss(stock: PreTrainedModel, batch: Batch) -> torch.Tensor:
    labels = torch.full_like(batch.input_ids, -100)
    labels.view(-1)[batch.masked_positions] = batch.masked_labels
    pairs = {"token_type_ids": batch.token_type_ids} if stock.config.model_type == "albert" else {}
    if isinstance(stock, AlbertForPreTraining):
        pairs["sentence_order_label"] = batch.sentence_order_label
    loss: torch.Tensor = stock(
        input_ids=batch.input_ids,
        attention_mask=batch.attention_mask,
        labels=labels,
        **pairs,
    ).loss
    return loss


def gradient(model: torch.nn.Module) -> torch.Tensor:
    return torch.cat([one.grad.flatten() for one in model.parameters() if one.grad is not None])


def test_loss_and_gradients_are_those_of_transformers(
    batch: Batch, either: RunFile, tokenizer: PreTrainedTokenizerFast
) -> None:
    model = build_model(either, tokenizer)
    stock = stock_of(model)
    ours, theirs = model(batch).loss, stock_loss(stock, batch)
    ours.backward()
    theirs.backward()
    assert ours.item() == pytest.approx(theirs.item(), rel=1e-6)
    for (name, mine), other in zip(model.named_parameters(), stock.parameters(), strict=True):
        assert (mine.grad is None) == (other.grad is None), name
        if mine.grad is not None and other.grad is not None:
            assert (mine.grad - other.grad).abs().max() < 1e-6, name


def test_forward_and_backward_never_wait_for_a_gpu(
    batch: Batch, either: RunFile, tokenizer: PreTrainedTokenizerFast
) -> None:
    meta = torch.device("meta")  # no numbers there, so reading one, for which a GPU would be waited for, is an error
    model: torch.nn.Module = build_model(either, tokenizer)
    model.to(meta)
    model(batch.to(meta)).loss.backward()


def test_of_all_lengths_and_numbers_of_masked_tokens_torch_compiles_few_programs(
    either: RunFile, documents: list[str], tokenizer: PreTrainedTokenizerFast
) -> None:
    compiled: list[torch.fx.GraphModule] = []

    def compiler(graph: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> Any:
        compiled.append(graph)
        return graph.forward

    model, plain = build_model(either, tokenizer), build_model(either, tokenizer)
    compile_layers(model, backend=compiler)
    with BatchPrefetcher(documents * 40, tokenizer, either, batch_size=32, seed=0) as feed:
        batches = [feed.next() for _ in range(30)]
    for batch in batches:
        assert model(batch).loss.item() == pytest.approx(plain(batch).loss.item(), abs=1e-5)
    shapes = {(one.input_ids.shape, len(one.masked_positions), one.attention_mask is None) for one in batches}
    assert len(shapes) > 2
    # two kinds of layers at most, each first for one width and then for any; at eight torch gives up
    assert len(compiled) <= 4


def test_gradients_in_bfloat16_are_as_near_to_the_true_ones_as_with_torch_attention(
    batch: Batch, either: RunFile, tokenizer: PreTrainedTokenizerFast
) -> None:
    model = build_model(either, tokenizer)
    true = build_model(either, tokenizer)
    plain = build_model(either, tokenizer)
    plain.set_attn_implementation("sdpa")
    true(batch).loss.backward()
    errors = {}
    for name, one in (("ours", model), ("torch's", plain)):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = one(batch).loss
        loss.backward()
        errors[name] = float((gradient(one) - gradient(true)).norm() / gradient(true).norm())
    assert errors["torch's"] > 0, "bfloat16 was not used"
    assert errors["ours"] < 1.2 * errors["torch's"] < 0.1


def test_the_losses_are_means_in_nats_and_their_sum(
    run: RunFile, tokenizer: PreTrainedTokenizerFast, full: Batch
) -> None:
    losses = build_model(run, tokenizer)(full)
    # an untrained model guesses
    assert losses.masked_lm_loss.item() == pytest.approx(torch.tensor(len(tokenizer)).log().item(), abs=0.3)
    assert losses.sentence_order_loss.item() == pytest.approx(torch.tensor(2).log().item(), abs=0.3)
    assert losses.loss.item() == pytest.approx((losses.masked_lm_loss + losses.sentence_order_loss).item())


def test_a_few_steps_on_a_batch_lower_both_losses(
    run: RunFile, tokenizer: PreTrainedTokenizerFast, full: Batch
) -> None:
    model = build_model(run, tokenizer)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    first = model(full)
    for _ in range(60):
        optimizer.zero_grad()
        model(full).loss.backward()
        optimizer.step()
    last = model(full)
    assert last.masked_lm_loss < first.masked_lm_loss - 1
    assert last.sentence_order_loss < 0.1


def test_initial_weights_are_the_same_in_every_process_whatever_was_drawn_before(
    either: RunFile, tokenizer: PreTrainedTokenizerFast, tmp_path: Path
) -> None:
    torch.rand(3)
    runs_well(builds_the_same, tmp_path, either, tokenizer, hash_of_weights(build_model(either, tokenizer)))


def builds_the_same(_: Path, run: RunFile, tokenizer: PreTrainedTokenizerFast, weights: str) -> None:
    torch.manual_seed(12345)
    assert hash_of_weights(build_model(run, tokenizer)) == weights


def test_building_a_model_does_not_touch_the_random_numbers_of_others(
    either: RunFile, tokenizer: PreTrainedTokenizerFast
) -> None:
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    build_model(either, tokenizer)
    assert torch.equal(torch.rand(3), expected)


def test_another_seed_gives_other_weights(run: RunFile, tokenizer: PreTrainedTokenizerFast) -> None:
    other = run.model_copy(update={"model": run.model.model_copy(update={"seed": 1})})
    first, second = (next(build_model(one, tokenizer).parameters()) for one in (run, other))
    assert not torch.equal(first, second)


def test_a_tokenizer_larger_than_the_run_file_says_is_an_error_of_one_line(
    run: RunFile, tokenizer: PreTrainedTokenizerFast
) -> None:
    small = run.model_copy(update={"tokenizer": run.tokenizer.model_copy(update={"vocab_size": 500})})
    with pytest.raises(TokenizerError) as caught:
        build_model(small, tokenizer)
    message = str(caught.value)
    assert "\n" not in message
    assert f"{len(tokenizer)} tokens" in message
    assert "tokenizer.vocab_size is 500" in message


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_saved_model_is_an_ordinary_one(
    dtype: torch.dtype, either: RunFile, tokenizer: PreTrainedTokenizerFast, padded: Batch, tmp_path: Path
) -> None:
    model = build_model(either, tokenizer).eval()
    model.save_pretrained(tmp_path)
    loaded = AutoModelForMaskedLM.from_pretrained(tmp_path)
    assert loaded.config._attn_implementation == "sdpa"
    assert "sahaj" not in (tmp_path / "config.json").read_text()
    inputs = {"input_ids": padded.input_ids, "attention_mask": padded.attention_mask}
    with torch.no_grad(), torch.autocast("cpu", dtype=dtype, enabled=dtype != torch.float32):
        assert torch.equal(loaded(**inputs).logits, type(model).__base__.forward(model, **inputs)[0])  # type: ignore[union-attr]


def test_biases_and_layer_norms_do_not_decay(run: RunFile, tokenizer: PreTrainedTokenizerFast) -> None:
    parameters = dict(build_model(run, tokenizer).named_parameters())
    layout = Layout.of(parameters.items(), has_muon=False)
    settings = run.optimizer.model_copy(update={"name": "adamw", "weight_decay": 0.1})
    before = initial_state(layout, [torch.ones_like(one) for one in parameters.values()])
    after = StateOptimizer(layout, settings).step(before, torch.zeros(layout.size))
    moved = zip(layout.names, layout.views(after.parameters), strict=True)
    spared = {name for name, one in moved if torch.equal(one, torch.ones_like(one))}
    assert spared == {name for name in parameters if name.endswith("bias") or "LayerNorm" in name or "_norm" in name}
