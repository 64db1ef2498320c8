"""One batch with experts: they are given true gradients, also where the loss is scaled for float16."""

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
from trainer.training_step import TrainingStep


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

    def begin_batch(self) -> int:
        return 0

    def end_batch(self, tokens: int, samples: int = 1, loss: float = 0.0) -> bool:
        gradients = [one.grad for one in self.model.parameters() if one.grad is not None]
        self.norm = float(torch.stack(torch._foreach_norm(gradients)).norm())
        return tokens > 0


class Scaled(Precision):
    """float32 with the scaler of float16, which a processor can compute, too."""

    def scaler(self) -> torch.amp.GradScaler:
        return torch.amp.GradScaler("cpu", init_scale=2.0**16)


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
