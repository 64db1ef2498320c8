"""One batch: experts get true gradients, also where the loss is scaled for float16; a pause gives it up in between."""

from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import PreTrainedTokenizerFast

from experts.expert import new_expert
from experts.grid import Uid, all_uids
from experts.layer.local import LocalExperts
from swarm.run_file import ExpertsSection, RunFile
from trainer.data import Batch
from trainer.model import build_model
from trainer.precision import Precision
from trainer.training_step import Interrupted, TrainingStep


class Recording(LocalExperts):
    """Experts that do not learn, and the largest gradient that each was given."""

    def __init__(self) -> None:
        super().__init__({uid: new_expert(8, 16, 0) for uid in all_uids((2, 2))}, learning_rate=None)
        self.largest: dict[Uid, float] = {}

    def backward(self, inputs: Any, gradients: Any) -> dict[Uid, Tensor]:
        self.largest = {uid: float(one.abs().max()) for uid, one in gradients.items()}
        return super().backward(inputs, gradients)


class Swarm:
    """Takes gradients as the collaborative optimizer does, and keeps the norm of the last one."""

    def __init__(self, model: torch.nn.Module):
        self.model, self.norm = model, 0.0
        self.open = 0  # batches that were begun and have not ended

    def begin_batch(self) -> int:
        self.open += 1
        return 0

    def end_batch(self, tokens: int, samples: int = 1, loss: float = 0.0) -> bool:
        self.open -= 1
        if not tokens:
            return False
        gradients = [one.grad for one in self.model.parameters() if one.grad is not None]
        self.norm = float(torch.stack(torch._foreach_norm(gradients)).norm())
        return tokens > 0


class Scaled(Precision):
    """float32 with the scaler of float16, which a processor can compute, too."""

    first = 2.0**16  # what the loss is multiplied by

    def scaler(self) -> torch.amp.GradScaler:
        return torch.amp.GradScaler("cpu", init_scale=self.first)


class TooLarge(Scaled):
    """Gradients of the first batch overflow."""

    first = float("inf")


def test_experts_learn_from_true_gradients_whatever_the_loss_is_scaled_by(
    run: RunFile, tokenizer: PreTrainedTokenizerFast, full: Batch
) -> None:
    run = run.model_copy(update={"experts": ExpertsSection(grid=[2, 2], width=8, hidden=16, off_share=0.0)})
    found = []
    for precision in (Precision, Scaled):
        model, experts = build_model(run, tokenizer), Recording()
        assert model.expert_term is not None
        torch.nn.init.normal_(model.expert_term.mixture.up.weight, generator=torch.Generator().manual_seed(0))
        swarm: Any = Swarm(model)
        step = TrainingStep(model, swarm, precision(torch.device("cpu"), torch.float32), experts, compile=False)
        assert step(full).counts
        found.append((experts.largest, swarm.norm))
    (plain, norm), (scaled, scaled_norm) = found
    assert plain and scaled == pytest.approx(plain, rel=1e-4)
    assert scaled_norm == pytest.approx(norm, rel=1e-4)


def test_a_batch_is_given_up_between_any_two_layers_forward_and_backward(
    either: RunFile, tokenizer: PreTrainedTokenizerFast, full: Batch
) -> None:
    model = build_model(either, tokenizer)
    asked, given_up_at = 0, -1

    def interrupted() -> bool:
        nonlocal asked
        asked += 1
        return asked == given_up_at

    swarm: Any = Swarm(model)
    precision = Precision(torch.device("cpu"), torch.float32)
    step = TrainingStep(model, swarm, precision, compile=False, interrupted=interrupted)
    assert step(full).counts and not swarm.open
    norm, questions = swarm.norm, asked
    layers = sum(not any(True for _ in one.children()) for one in model.modules())
    assert questions > layers, "it is asked on the way back, too"
    for given_up_at in range(1, questions + 1, 7):
        asked, swarm.norm = 0, 0.0
        with pytest.raises(Interrupted):
            step(full)
        assert asked == given_up_at and not swarm.norm, "nothing of it counts"
        assert not swarm.open, "and the swarm does not wait for it"
    asked, given_up_at = 0, -1
    assert step(full).counts and swarm.norm == pytest.approx(norm, rel=1e-5)


def test_a_scale_that_was_too_large_is_told_from_a_loss_that_is_no_number(
    run: RunFile, tokenizer: PreTrainedTokenizerFast, full: Batch
) -> None:
    for precision, is_overflow in ((Scaled, False), (TooLarge, True)):
        model = build_model(run, tokenizer)
        swarm: Any = Swarm(model)
        step = TrainingStep(model, swarm, precision(torch.device("cpu"), torch.float32), compile=False)
        result = step(full)
        assert (result.is_finite, result.is_overflow) == (not is_overflow, is_overflow)
    torch.nn.init.constant_(next(model.parameters()), float("nan"))
    result = TrainingStep(model, swarm, Precision(torch.device("cpu"), torch.float32), compile=False)(full)
    assert (result.is_finite, result.is_overflow) == (False, False)
