"""Attention with a backward pass that is fast on CPUs, too.

In bfloat16 the backward pass of torch's fused attention takes most of a step there: of a layer with 16
samples of 128 tokens and 4 heads 21 ms of one core's time. Plain matrix products, which use the
processor's matrix instructions, take 4 ms. Nothing but the inputs is kept for them, so that the memory is that
of one layer at a time.
"""

from typing import Any

import torch
from torch import nn
from torch.autograd.function import once_differentiable
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

ATTENTION = "sahaj"  # what Transformers calls it; not saved with a model


class ProductAttention(torch.autograd.Function):
    """Fused attention with a backward pass of matrix products."""

    @staticmethod
    def forward(
        ctx: Any,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        mask: torch.Tensor | None,
        scaling: float,
    ) -> torch.Tensor:
        """Attention of [B, heads, L, width] tensors; the mask is as torch's."""
        ctx.save_for_backward(query, key, value, mask)
        ctx.scaling = scaling
        return nn.functional.scaled_dot_product_attention(query, key, value, attn_mask=mask, scale=scaling)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        """Gradients of query, key and value; the attention weights are computed again."""
        mask = ctx.saved_tensors[3]
        # [B * heads, L, width]; without the copies the products take twice as long
        query, key, value, gradient = (one.flatten(0, 1) for one in (*ctx.saved_tensors[:3], gradient))
        scores = torch.bmm(query, key.transpose(1, 2)).mul_(ctx.scaling)
        if mask is not None:
            by_head = scores.unflatten(0, (len(mask), -1))  # shares memory with the scores
            if mask.dtype == torch.bool:
                # a finite number: padding may see no key at all, and its weights have to be numbers
                by_head.masked_fill_(~mask, torch.finfo(scores.dtype).min)
            else:
                by_head.add_(mask)
        weights = torch.softmax(scores, dim=-1)
        of_weights = torch.bmm(gradient, value.transpose(1, 2))
        of_scores = torch._softmax_backward_data(of_weights, weights, -1, weights.dtype).mul_(ctx.scaling)
        gradients = (
            torch.bmm(of_scores, key),
            torch.bmm(of_scores.transpose(1, 2), query),
            torch.bmm(weights.transpose(1, 2), gradient),
        )
        shape = ctx.saved_tensors[0].shape
        return (*(one.view(shape) for one in gradients), None, None)


def attention(
    module: nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float,
    dropout: float = 0.0,
    **others: Any,
) -> tuple[torch.Tensor, None]:
    """Attention as Transformers calls it; returns [B, L, heads, width] and no weights."""
    quick = query.device.type == "cpu" and query.dtype == torch.bfloat16 and torch.is_grad_enabled()
    if not quick or dropout > 0:
        attended, _ = sdpa_attention_forward(
            module, query, key, value, attention_mask, dropout=dropout, scaling=scaling, **others
        )
        return attended, None
    attended = ProductAttention.apply(query, key, value, attention_mask, scaling)
    return attended.transpose(1, 2).contiguous(), None


AttentionInterface.register(ATTENTION, attention)
AttentionMaskInterface.register(ATTENTION, sdpa_mask)
