"""What a model's training forward pass returns."""

from typing import NamedTuple

import torch


class Losses(NamedTuple):
    """Scalars, in nats: means over masked positions and over samples, and their sum.

    A model without a sentence-order head has neither that loss nor its scores.
    """

    loss: torch.Tensor
    masked_lm_loss: torch.Tensor
    sentence_order_loss: torch.Tensor | None = None
    sentence_order_scores: torch.Tensor | None = None  # [B, 2]: in order, swapped
