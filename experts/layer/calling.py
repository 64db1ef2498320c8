"""Calls experts for rows, in one batch for each expert, as a differentiable function that tolerates failures.

Source: Ryabinin and Gusev 2020, sections 3.1 and 3.2. The backward pass calls the experts again, which compute their
outputs once more and take their own steps. An expert that fails in one direction is left out in that direction.
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from experts.calls import ExpertCaller
from experts.grid import Uid
from experts.layer.gate import Choice

LARGEST = 1e4  # magnitude of an element of an answer; experts of an honest host stay far below

Groups = list[tuple[Uid, int]]  # experts in order, with the number of their rows


def call_experts(caller: ExpertCaller, rows: Tensor, choice: Choice, divisor: float = 1.0) -> tuple[Tensor, Tensor]:
    """Send each row to its experts.

    An answer of another shape, or with elements that are not finite or absurdly large, counts as none: hosts are not
    trusted. An expert whose gradients are not finite, as a scaled loss makes them now and then, is not called backward.

    Args:
        rows: (N, width).
        divisor: of the gradients that experts are given; what they answer is multiplied by it again.

    Returns:
        float32, (N, experts of a row, width), zero where no expert answered; and which answered, bool, (N, experts of
        a row).
    """
    count = choice.coordinates.shape[1]
    there = choice.is_there.flatten()
    called = there.nonzero().squeeze(1)  # places in the flattened choice
    uids, numbers, sizes = choice.coordinates.flatten(0, 1)[called].unique(
        dim=0, return_inverse=True, return_counts=True
    )
    called = called[numbers.argsort(stable=True)]  # by expert
    groups = [(tuple(uid), size) for uid, size in zip(uids.tolist(), sizes.tolist(), strict=True)]
    outputs, answered = _Calls.apply(rows.index_select(0, called // max(count, 1)), caller, groups, divisor)
    spread = outputs.new_zeros(len(there), rows.shape[1]).index_copy(0, called, outputs)
    answers = torch.zeros_like(there).index_copy(0, called, answered)
    return spread.view(len(rows), count, rows.shape[1]), answers.view(len(rows), count)


class _Calls(torch.autograd.Function):
    """Rows that are sorted by expert, to outputs in the same order."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, caller: ExpertCaller, groups: Groups, divisor: float) -> tuple[Tensor, Tensor]:
        inputs = _split(rows, groups)
        outputs = _plausible(caller.forward(inputs), inputs) if inputs else {}
        ctx.caller, ctx.groups, ctx.dtype, ctx.divisor = caller, groups, rows.dtype, divisor
        ctx.inputs = {uid: inputs[uid] for uid in outputs}
        answered = torch.cat(
            [torch.full((size,), uid in outputs) for uid, size in groups] or [torch.zeros(0, dtype=torch.bool)]
        ).to(rows.device)
        ctx.mark_non_differentiable(answered)
        return _joined(outputs, groups, rows), answered

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradients: Tensor, _: Tensor) -> tuple[Tensor, None, None, None]:
        parts = _split(gradients / ctx.divisor, ctx.groups)
        of_outputs = {uid: one for uid, one in parts.items() if uid in ctx.inputs and bool(one.isfinite().all())}
        inputs = {uid: ctx.inputs[uid] for uid in of_outputs}
        of_inputs = _plausible(ctx.caller.backward(inputs, of_outputs), inputs) if inputs else {}
        return _joined(of_inputs, ctx.groups, gradients).mul_(ctx.divisor).to(ctx.dtype), None, None, None


def _split(rows: Tensor, groups: Groups) -> dict[Uid, Tensor]:
    """Each expert's rows, as float32 on the CPU."""
    parts = rows.detach().to("cpu", torch.float32).split([size for _, size in groups]) if groups else ()
    return {uid: part for (uid, _), part in zip(groups, parts, strict=True)}


def _joined(parts: Mapping[Uid, Tensor], groups: Groups, like: Tensor) -> Tensor:
    """All rows in order, float32, on the device of others; zero for experts without a part."""
    width = like.shape[1]
    every = [parts[uid] if uid in parts else torch.zeros(size, width) for uid, size in groups]
    return torch.cat([torch.zeros(0, width), *every]).to(like.device)


def _plausible(answers: Mapping[Uid, Tensor], inputs: Mapping[Uid, Tensor]) -> dict[Uid, Tensor]:
    """Answers that fit what was sent."""
    return {
        uid: answer
        for uid, answer in answers.items()
        if uid in inputs
        and answer.shape == inputs[uid].shape
        and answer.dtype == torch.float32
        and bool((answer.abs() <= LARGEST).all())  # false for what is not finite
    }
