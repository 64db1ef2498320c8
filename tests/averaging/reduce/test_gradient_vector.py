"""Gradients as a vector: the same bits as tensor by tensor, and memory that is used again."""

import torch
from torch.nn import Parameter

from averaging.reduce.gradient_vector import GradientVector

SHAPES = ((31, 7), (1,), (300_007,), (5, 1, 3), ())


def drawn(seed: int) -> list[Parameter]:
    generator = torch.Generator().manual_seed(seed)
    parameters = [Parameter(torch.empty(shape)) for shape in SHAPES]
    for one in parameters:
        one.grad = torch.randn(one.shape, generator=generator) * 1e-38  # some are below the smallest normal number
    return parameters


def test_a_vector_has_the_bits_of_its_gradients_joined_and_then_multiplied() -> None:
    parameters = drawn(0)
    parameters[0].grad = torch.randn(7, 31).T  # not contiguous
    parameters[2].grad = None
    gradients = [torch.zeros_like(one) if one.grad is None else one.grad for one in parameters]
    for tokens in (1, 7, 65_537):
        expected = torch.cat([one.reshape(-1) for one in gradients]).mul_(tokens)
        found = GradientVector(parameters).times(tokens)
        assert torch.equal(found.view(torch.int32), expected.view(torch.int32))


def test_each_batch_writes_to_the_same_memory() -> None:
    parameters = drawn(0)
    vector = GradientVector(parameters)
    first = vector.times(3)
    kept = first.clone()
    for one, other in zip(parameters, drawn(1), strict=True):
        one.grad = other.grad
    second = vector.times(3)
    assert second.data_ptr() == first.data_ptr() and not torch.equal(second, kept)
