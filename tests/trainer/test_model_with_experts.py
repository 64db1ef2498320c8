"""The term of experts in the model: zero without them, on the rows that count, in the loss that is minimized."""

from collections.abc import Collection, Mapping

import pytest
import torch
from torch import Tensor
from transformers import PreTrainedTokenizerFast

from averaging.log.state import Layout
from averaging.optimizers.state_step import StateOptimizer, initial_state
from experts.calls import NoExperts
from experts.expert import new_expert
from experts.grid import Uid, all_uids
from experts.layer.expert_term import NAME, ExpertTerm
from experts.layer.local import LocalExperts
from swarm.run_file import ExpertsSection, RunFile
from trainer.data import Batch
from trainer.model import PretrainingModel, build_model, compile_layers
from trainer.model_size import tensor_sizes

SETTINGS = ExpertsSection(grid=[2, 2], width=8, hidden=16, off_share=0.0)


class Counting:
    """Reaches experts of this process, and counts rows."""

    def __init__(self) -> None:
        uids = all_uids((2, 2))
        self._local = LocalExperts({uid: new_expert(8, 16, seed) for seed, uid in enumerate(uids)})
        self.forward_rows = self.backward_rows = 0

    def alive(self) -> Collection[Uid]:
        return self._local.alive()

    def forward(self, inputs: Mapping[Uid, Tensor]) -> dict[Uid, Tensor]:
        self.forward_rows += sum(map(len, inputs.values()))
        return self._local.forward(inputs)

    def backward(self, inputs: Mapping[Uid, Tensor], gradients: Mapping[Uid, Tensor]) -> dict[Uid, Tensor]:
        self.backward_rows += sum(map(len, inputs.values()))
        return self._local.backward(inputs, gradients)


@pytest.fixture
def with_experts(run: RunFile) -> RunFile:
    return run.model_copy(update={"experts": SETTINGS})


@pytest.fixture
def model(with_experts: RunFile, tokenizer: PreTrainedTokenizerFast) -> PretrainingModel:
    return build_model(with_experts, tokenizer)


def term_of(model: PretrainingModel) -> ExpertTerm:
    assert model.expert_term is not None
    return model.expert_term


def reach(model: PretrainingModel) -> Counting:
    """Give a model experts, and an `up` that lets them through."""
    caller = Counting()
    mixture = term_of(model).mixture
    mixture.caller = caller
    torch.nn.init.normal_(mixture.up.weight, std=0.3, generator=torch.Generator().manual_seed(0))
    return caller


def test_without_experts_it_is_the_model_of_a_run_that_has_none(
    model: PretrainingModel, run: RunFile, tokenizer: PreTrainedTokenizerFast, padded: Batch
) -> None:
    plain = build_model(run, tokenizer)
    for name, parameter in plain.named_parameters():
        assert torch.equal(parameter, model.get_parameter(name)), name
    torch.nn.init.normal_(term_of(model).mixture.up.weight)
    ours, theirs = model(padded), plain(padded)
    assert all(torch.equal(one, other) for one, other in zip(ours, theirs, strict=True))
    ours.loss.backward()
    gradients = [one.grad for one in term_of(model).parameters() if one.grad is not None]
    assert not any(bool(one.any()) for one in gradients)


def test_masked_positions_and_first_tokens_travel_and_padding_among_them_does_not(
    model: PretrainingModel, padded: Batch
) -> None:
    assert padded.masked < len(padded.masked_positions), "there is no padding among the masked positions"
    caller = reach(model)
    model(padded).loss.backward()
    expected = SETTINGS.experts_of_a_row * (padded.masked + padded.samples)
    assert caller.forward_rows == caller.backward_rows == expected


def test_gate_and_bottleneck_learn_and_the_balancing_loss_is_in_the_minimized_loss_alone(
    model: PretrainingModel, padded: Batch
) -> None:
    reach(model)
    losses = model(padded)
    balancing = losses.loss - losses.masked_lm_loss - losses.sentence_order_loss
    assert balancing.item() > 1e-6
    losses.loss.backward()
    for name, parameter in term_of(model).named_parameters():
        assert parameter.grad is not None and parameter.grad.any(), name
    model.eval()
    losses = model(padded)
    assert losses.loss.item() == pytest.approx((losses.masked_lm_loss + losses.sentence_order_loss).item())


def test_experts_change_what_the_model_predicts(model: PretrainingModel, padded: Batch) -> None:
    model.eval()
    alone = model.predict(padded)
    reach(model)
    counted = padded.masked_labels >= 0
    assert (model.predict(padded) - alone)[counted].abs().amax(1).min() > 1e-4


def test_experts_lower_the_loss(model: PretrainingModel, full: Batch) -> None:
    """They alone learn: the trunk stays as it is."""
    reach(model)
    first = model(full).loss.item()
    for _ in range(30):
        model(full).loss.backward()
    assert model(full).loss.item() < first


def test_it_works_in_a_compiled_model(model: PretrainingModel, padded: Batch) -> None:
    caller = reach(model)
    compile_layers(model, backend="eager")
    losses = model(padded)
    losses.loss.backward()
    assert caller.backward_rows == caller.forward_rows > 0
    assert losses.masked_lm_loss.item() == pytest.approx(model.eval()(padded).masked_lm_loss.item(), abs=0.01)


def test_its_matrices_take_muons_step_and_none_while_no_expert_answers(
    model: PretrainingModel, with_experts: RunFile, padded: Batch
) -> None:
    layout, parameters = Layout.of(model.named_parameters(), has_muon=True), list(model.parameters())
    settings = with_experts.optimizer.model_copy(update={"name": "muon"})
    optimizer, state = StateOptimizer(layout, settings), initial_state(layout, parameters)
    moved = []
    for experts in (NoExperts(), reach(model)._local, NoExperts()):
        term_of(model).mixture.caller = experts
        model.zero_grad()
        model(padded).loss.backward()
        gradients = [torch.zeros_like(one) if one.grad is None else one.grad for one in parameters]
        after = optimizer.step(state, layout.flat(gradients))
        pairs = zip(layout.names, layout.views(state.parameters), layout.views(after.parameters), strict=True)
        moved.append({name for name, before, now in pairs if not torch.equal(before, now)})
        state = after
    of_term = {
        name for name, is_matrix in zip(layout.names, layout.matrices, strict=True) if is_matrix and NAME in name
    }
    assert len(of_term) == 3  # the gate, down and up
    assert [of_term & one for one in moved] == [set(), of_term, set()]
    assert all(any("ffn" in name for name in one) for one in moved)


def test_a_plan_counts_it(model: PretrainingModel, with_experts: RunFile, tokenizer: PreTrainedTokenizerFast) -> None:
    size = with_experts.tokenizer.model_copy(update={"vocab_size": len(tokenizer)})
    sizes = tensor_sizes(with_experts.model_copy(update={"tokenizer": size}))
    assert sorted(sizes) == sorted(one.numel() for one in model.parameters())
