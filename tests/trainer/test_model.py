"""ALBERT made cheap is still ALBERT."""

import hashlib
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AlbertForPreTraining, AutoModelForMaskedLM, PreTrainedTokenizerFast

from swarm.errors import TokenizerError
from swarm.run_file import RunFile
from tests.support.forked import runs_well
from trainer.data import Batch, BatchPrefetcher
from trainer.model import PretrainingModel, build_model, model_config, parameter_groups, sinusoids


def hash_of_weights(model: PretrainingModel) -> str:
    return hashlib.sha256(b"".join(one.detach().numpy().tobytes() for one in model.parameters())).hexdigest()


def stock_of(model: PretrainingModel) -> AlbertForPreTraining:
    """Transformers' own model with its own attention and the same weights."""
    config = type(model.config)(**model.config.to_diff_dict())
    stock = AlbertForPreTraining(config)
    stock.load_state_dict(model.state_dict())
    assert stock.config._attn_implementation == "sdpa"
    return stock


def stock_loss(stock: AlbertForPreTraining, batch: Batch) -> torch.Tensor:
    labels = torch.full_like(batch.input_ids, -100)
    labels.view(-1)[batch.masked_positions] = batch.masked_labels
    loss: torch.Tensor = stock(
        input_ids=batch.input_ids,
        token_type_ids=batch.token_type_ids,
        attention_mask=batch.attention_mask,
        labels=labels,
        sentence_order_label=batch.sentence_order_label,
    ).loss
    return loss


def gradient(model: torch.nn.Module) -> torch.Tensor:
    return torch.cat([one.grad.flatten() for one in model.parameters() if one.grad is not None])


@pytest.mark.parametrize("kind", ["full", "padded"])
def test_loss_and_gradients_are_those_of_transformers_albert(
    kind: str, run: RunFile, tokenizer: PreTrainedTokenizerFast, request: pytest.FixtureRequest
) -> None:
    batch: Batch = request.getfixturevalue(kind)
    assert (batch.attention_mask is None) == (kind == "full")
    model = build_model(run, tokenizer)
    stock = stock_of(model)
    ours, theirs = model(batch).loss, stock_loss(stock, batch)
    ours.backward()
    theirs.backward()
    assert ours.item() == pytest.approx(theirs.item(), abs=1e-6)
    for (name, mine), other in zip(model.named_parameters(), stock.parameters(), strict=True):
        assert (mine.grad is None) == (other.grad is None), name
        if mine.grad is not None and other.grad is not None:
            assert (mine.grad - other.grad).abs().max() < 1e-6, name


@pytest.mark.parametrize("kind", ["full", "padded"])
def test_forward_and_backward_never_wait_for_a_gpu(
    kind: str, run: RunFile, tokenizer: PreTrainedTokenizerFast, request: pytest.FixtureRequest
) -> None:
    batch: Batch = request.getfixturevalue(kind)
    meta = torch.device("meta")  # no numbers there, so reading one, for which a GPU would be waited for, is an error
    model: torch.nn.Module = build_model(run, tokenizer)
    model.to(meta)
    model(batch.to(meta)).loss.backward()


def test_of_all_lengths_and_numbers_of_masked_tokens_torch_compiles_few_programs(
    run: RunFile, documents: list[str], tokenizer: PreTrainedTokenizerFast
) -> None:
    compiled: list[torch.fx.GraphModule] = []

    def compiler(graph: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> Any:
        compiled.append(graph)
        return graph.forward

    model = build_model(run, tokenizer)
    forward = torch.compile(model, backend=compiler)
    with BatchPrefetcher(documents * 40, tokenizer, run, batch_size=32, seed=0) as feed:
        batches = [feed.next() for _ in range(30)]
    for batch in batches:
        assert forward(batch).loss.item() == pytest.approx(model(batch).loss.item(), abs=1e-5)
    shapes = {(one.input_ids.shape, len(one.masked_positions), one.attention_mask is None) for one in batches}
    assert len(compiled) < len(shapes)
    assert len(compiled) <= 4  # at eight torch gives up


@pytest.mark.parametrize("kind", ["full", "padded"])
def test_gradients_in_bfloat16_are_as_near_to_the_true_ones_as_with_torch_attention(
    kind: str, run: RunFile, tokenizer: PreTrainedTokenizerFast, request: pytest.FixtureRequest
) -> None:
    batch: Batch = request.getfixturevalue(kind)
    model = build_model(run, tokenizer)
    true = build_model(run, tokenizer)
    plain = build_model(run, tokenizer)
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
    optimizer = torch.optim.Adam(parameter_groups(model, 0.0), lr=3e-3)
    first = model(full)
    for _ in range(60):
        optimizer.zero_grad()
        model(full).loss.backward()
        optimizer.step()
    last = model(full)
    assert last.masked_lm_loss < first.masked_lm_loss - 1
    assert last.sentence_order_loss < 0.1


def test_initial_weights_are_the_same_in_every_process_whatever_was_drawn_before(
    run: RunFile, tokenizer: PreTrainedTokenizerFast, tmp_path: Path
) -> None:
    torch.rand(3)
    runs_well(builds_the_same, tmp_path, run, tokenizer, hash_of_weights(build_model(run, tokenizer)))


def builds_the_same(_: Path, run: RunFile, tokenizer: PreTrainedTokenizerFast, weights: str) -> None:
    torch.manual_seed(12345)
    assert hash_of_weights(build_model(run, tokenizer)) == weights


def test_building_a_model_does_not_touch_the_random_numbers_of_others(
    run: RunFile, tokenizer: PreTrainedTokenizerFast
) -> None:
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    build_model(run, tokenizer)
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
    dtype: torch.dtype, run: RunFile, tokenizer: PreTrainedTokenizerFast, padded: Batch, tmp_path: Path
) -> None:
    model = build_model(run, tokenizer).eval()
    model.save_pretrained(tmp_path)
    loaded = AutoModelForMaskedLM.from_pretrained(tmp_path)
    assert loaded.config._attn_implementation == "sdpa"
    assert "sahaj" not in (tmp_path / "config.json").read_text()
    inputs = {"input_ids": padded.input_ids, "attention_mask": padded.attention_mask}
    with torch.no_grad(), torch.autocast("cpu", dtype=dtype, enabled=dtype != torch.float32):
        hidden = model.albert(**inputs).last_hidden_state
        assert torch.equal(loaded(**inputs).logits, model.predictions(hidden))


def test_biases_and_layer_norms_do_not_decay(run: RunFile, tokenizer: PreTrainedTokenizerFast) -> None:
    model = build_model(run, tokenizer)
    decayed, others = parameter_groups(model, 0.01)
    assert (decayed["weight_decay"], others["weight_decay"]) == (0.01, 0.0)
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    spared = {names[id(parameter)] for parameter in others["params"]}
    assert spared == {
        name for name in names.values() if name.endswith("bias") or "LayerNorm" in name or "_norm" in name
    }
    assert len(decayed["params"]) + len(others["params"]) == len(names)


def test_the_configuration_follows_tokenizer_and_run_file(run: RunFile, tokenizer: PreTrainedTokenizerFast) -> None:
    config = model_config(run, tokenizer)
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
    assert rows.square().mean().sqrt() == pytest.approx(0.1, rel=0.01)
    shift = torch.linalg.lstsq(rows[:-3].double(), rows[3:].double()).solution
    assert torch.allclose(rows[:-3].double() @ shift, rows[3:].double(), atol=1e-4)


def test_an_odd_width_has_its_sinusoids_too() -> None:
    assert torch.equal(sinusoids(5, 7, size=0.1), sinusoids(5, 7, size=0.1))
    assert sinusoids(5, 7, size=0.1).shape == (5, 7)


def test_the_model_begins_with_them(run: RunFile, tokenizer: PreTrainedTokenizerFast) -> None:
    weights = build_model(run, tokenizer).albert.embeddings.position_embeddings.weight
    assert torch.equal(weights, sinusoids(*weights.shape, size=run.model.initializer_range))
