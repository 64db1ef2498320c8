"""Evaluates the model on held-out text."""

import math
import time
from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from trainer.data import Batch
from trainer.model import PretrainingModel

LARGEST_EXPONENT = 700.0  # the exponential of more is no float


@dataclass(frozen=True)
class Evaluation:
    """Held-out losses in nats: means over masked positions and over samples; accuracy from 0 to 1."""

    masked_lm_loss: float
    sentence_order_loss: float
    sentence_order_accuracy: float
    samples: int

    @property
    def perplexity(self) -> float:
        """Perplexity of a masked token; infinite where the loss has exploded."""
        return perplexity(self.masked_lm_loss)


def perplexity(loss: float) -> float:
    """The exponential of a loss in nats; infinite where it has exploded."""
    return math.exp(loss) if loss < LARGEST_EXPONENT else math.inf


def bfloat16_is_faster(model: PretrainingModel, batch: Batch) -> bool:
    """Whether to evaluate in bfloat16 on this processor; not every one that supports it is faster with it."""
    return torch.cpu._is_avx512_bf16_supported() and _seconds(model, batch, True) < _seconds(model, batch, False)


@torch.no_grad()
def _seconds(model: PretrainingModel, batch: Batch, autocast: bool) -> float:
    """Seconds for a forward pass, the better of two after a warm-up."""
    taken = []
    for _ in range(3):
        began = time.perf_counter()
        with torch.autocast(model.device.type, torch.bfloat16, enabled=autocast):
            model(batch)
        taken.append(time.perf_counter() - began)
    return min(taken[1:])


@torch.no_grad()
def evaluate(model: PretrainingModel, batches: Iterable[Batch], *, autocast: bool = False) -> Evaluation:
    """Run the model over held-out batches, without dropout, and restore its mode.

    Every masked position counts the same, however samples are grouped into batches.

    Args:
        model: on any device; batches are moved to it.
        batches: masked samples, as `trainer.data.validation_batches` gives them.
        autocast: compute in bfloat16 where torch considers it safe; losses are still float32.

    Raises:
        ValueError: there is no sample, or nothing is masked in any of them.
    """
    scores: list[Tensor] = []

    def keep_scores(module: nn.Module, arguments: object, output: Tensor) -> None:
        scores.append(output)

    masked_lm_loss = sentence_order_loss = 0.0
    masked = samples = correct = 0
    was_training = model.training
    model.eval()
    hook = model.sop_classifier.register_forward_hook(keep_scores)  # losses do not tell accuracy
    try:
        for held_out in batches:
            batch = held_out.to(model.device)
            with torch.autocast(model.device.type, torch.bfloat16, enabled=autocast):
                losses = model(batch)
            positions = held_out.masked
            if positions:  # the mean over none is not a number
                masked_lm_loss += losses.masked_lm_loss.item() * positions
            sentence_order_loss += losses.sentence_order_loss.item() * batch.samples
            correct += int((scores.pop().argmax(-1) == batch.sentence_order_label).sum())
            masked += positions
            samples += batch.samples
    finally:
        hook.remove()
        model.train(was_training)
    if not masked:
        raise ValueError("held-out batches have no masked position to evaluate on")
    return Evaluation(masked_lm_loss / masked, sentence_order_loss / samples, correct / samples, samples)
