"""LAMB does what the paper says, and without its trust ratio it is AdamW; the learning rate rises and falls."""

from itertools import pairwise
from typing import Any

import pytest
import torch
from torch import Tensor

from averaging.log.state import Layout
from averaging.optimizers.schedule import learning_rate_at, schedule_factor
from averaging.optimizers.state_step import StateOptimizer, initial_state
from swarm.run_file import OptimizerSection

SETTINGS = OptimizerSection(learning_rate=0.01, warmup_steps=4, total_steps=20, weight_decay=0.1)
LONG = SETTINGS.model_copy(update={"total_steps": 1000})
NORMS = (0.1, 1.0, 7.0, 41.0, 100.0)  # 41: a feed-forward matrix of ALBERT-large at the start
STEPS = 50


def algorithm_2(settings: OptimizerSection, weights: list[Tensor], gradients: list[list[Tensor]]) -> list[Tensor]:
    """You et al. 2020, algorithm 2, line by line in float64; phi is the identity, and only matrices decay."""
    beta1, beta2 = settings.betas
    x = [one.double() for one in weights]
    m, v = ([torch.zeros_like(one) for one in x] for _ in range(2))
    for t, all_gradients in enumerate(gradients, 1):
        g = [one.double() for one in all_gradients]
        norm = float(torch.cat([one.flatten() for one in g]).norm())
        if norm > settings.max_gradient_norm:
            g = [one * settings.max_gradient_norm / norm for one in g]
        for i in range(len(x)):
            m[i] = beta1 * m[i] + (1 - beta1) * g[i]
            v[i] = beta2 * v[i] + (1 - beta2) * g[i] ** 2
            m_hat, v_hat = m[i] / (1 - beta1**t), v[i] / (1 - beta2**t)
            r = m_hat / (v_hat.sqrt() + settings.epsilon)
            update = r + (settings.weight_decay if x[i].dim() > 1 else 0.0) * x[i]
            x[i] = x[i] - learning_rate_at(settings, t - 1) * x[i].norm() / update.norm() * update
    return x


def drawn(shapes: list[tuple[int, ...]], norms: list[float], seed: int) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    tensors = [torch.randn(shape, generator=generator) for shape in shapes]
    return [tensor * (norm / tensor.norm()) for tensor, norm in zip(tensors, norms, strict=True)]


def stepped(settings: OptimizerSection, weights: list[Tensor], gradients: list[list[Tensor]]) -> list[Tensor]:
    """The weights after a step along each of the gradients."""
    layout = Layout.of([(str(number), one) for number, one in enumerate(weights)], has_muon=False)
    state = initial_state(layout, weights)
    for each in gradients:
        state = StateOptimizer(layout, settings).step(state, layout.flat(each))
    return layout.views(state.parameters)


def off(ours: Tensor, reference: Tensor) -> float:
    """The norm of the difference relative to that of the reference."""
    return float((ours.double() - reference.double()).norm() / reference.double().norm())


@pytest.mark.parametrize("gradient_norm", [1e-3, 50.0], ids=["as it is", "scaled down"])
@pytest.mark.parametrize("decay", [0.0, 0.01, 0.3])
@pytest.mark.parametrize("betas", [(0.9, 0.999), (0.9, 0.98)], ids=str)
def test_fifty_steps_are_those_of_the_paper(betas: tuple[float, float], decay: float, gradient_norm: float):
    settings = LONG.model_copy(update={"betas": betas, "weight_decay": decay})
    shapes = [(300, 400), (64, 32), (128, 1), (50, 7), (17,)]
    weights = drawn(shapes, list(NORMS), seed=0)
    gradients = [drawn(shapes, [gradient_norm * share for share in (1, 2, 3, 4, 5)], seed=1 + t) for t in range(STEPS)]
    reference = algorithm_2(settings, weights, gradients)
    for begun, own, expected in zip(weights, stepped(settings, weights, gradients), reference, strict=True):
        assert off(begun, expected) > 0.01  # it went somewhere
        assert off(own, expected) < 1e-6


def test_a_large_matrix_has_its_true_norm():
    shape = (4096, 1024)  # added up in float32, its norm is off by 1e-4
    settings = LONG.model_copy(update={"learning_rate": 2.0})
    weights = drawn([shape], [41.0], seed=0)
    gradients = [drawn([shape], [3.0], seed=1 + t) for t in range(2)]
    assert off(stepped(settings, weights, gradients)[0], algorithm_2(settings, weights, gradients)[0]) < 1e-6


@pytest.mark.parametrize("decay", [0.0, 0.1])
@pytest.mark.parametrize("epsilon", [1e-8, 1e-3])
def test_without_a_trust_ratio_it_is_adamw(epsilon: float, decay: float):
    changes = {"name": "adamw", "epsilon": epsilon, "weight_decay": decay, "max_gradient_norm": 1e9}
    settings = LONG.model_copy(update=changes)
    shapes: list[tuple[int, ...]] = [(30, 40), (64,)]
    weights = drawn(shapes, [0.1, 100.0], seed=0)
    gradients = [drawn(shapes, [0.01, 5.0], seed=1 + t) for t in range(STEPS)]
    twins = [torch.nn.Parameter(one.clone()) for one in weights]
    groups: list[dict[str, Any]] = [{"params": twins[:1]}, {"params": twins[1:], "weight_decay": 0.0}]
    adam = torch.optim.AdamW(groups, betas=settings.betas, eps=epsilon, weight_decay=decay)
    for step, each in enumerate(gradients):
        for group in adam.param_groups:
            group["lr"] = learning_rate_at(settings, step)
        for twin, gradient in zip(twins, each, strict=True):
            twin.grad = gradient.clone()
        adam.step()
    for begun, own, twin in zip(weights, stepped(settings, weights, gradients), twins, strict=True):
        assert off(begun, twin.detach()) > 1e-3
        assert off(own, twin.detach()) < 1e-6


def test_weights_of_zero_and_updates_of_zero_have_a_trust_ratio_of_one():
    settings = LONG.model_copy(update={"max_gradient_norm": 1e9, "weight_decay": 0.0})
    weights = [torch.zeros(3, 2), torch.ones(3, 2), torch.zeros(3, 2)]
    gradients = [torch.full((3, 2), 5.0), torch.zeros(3, 2), torch.zeros(3, 2)]
    moved, *still = stepped(settings, weights, [gradients])
    torch.testing.assert_close(moved, torch.full((3, 2), -learning_rate_at(settings, 0)))  # Adam's first step
    assert torch.equal(still[0], weights[1]) and torch.equal(still[1], weights[2])


def test_the_learning_rate_rises_to_its_peak_and_falls_to_zero():
    rates = [learning_rate_at(SETTINGS, step) for step in range(25)]
    assert rates[:5] == pytest.approx([0.0025, 0.005, 0.0075, 0.01, 0.01])
    assert all(later < earlier for earlier, later in pairwise(rates[4:21]))
    assert rates[12] == pytest.approx(0.005)
    assert rates[20:] == [0.0] * 5


def test_the_share_of_the_peak_is_that_of_the_learning_rate():
    shares = [schedule_factor(SETTINGS, step) for step in range(-1, 25)]
    assert shares[0] == 0.0, "there is no state yet"
    assert shares[1:] == pytest.approx([learning_rate_at(SETTINGS, step) / 0.01 for step in range(25)])


def test_without_a_warm_up_the_learning_rate_begins_at_its_peak():
    settings = OptimizerSection(learning_rate=0.01, warmup_steps=0, total_steps=10)
    assert learning_rate_at(settings, 0) == 0.01
    assert learning_rate_at(settings, 9) == pytest.approx(0.001)
