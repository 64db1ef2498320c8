"""LAMB does what the paper says, to the bit the same everywhere, and begins without moving the weights."""

from copy import deepcopy
from itertools import pairwise
from typing import Any

import pytest
import torch
from hivemind.optim.state_averager import dump_optimizer_state, load_optimizer_state

from averaging.optimizers.schedule import learning_rate_at, schedule_factor
from benchmarks.learning.lamb import Lamb
from swarm.run_file import OptimizerSection

SETTINGS = OptimizerSection(learning_rate=0.01, warmup_steps=4, total_steps=20, weight_decay=0.1)
NORMS = (0.1, 1.0, 7.0, 41.0, 100.0)  # 41: a feed-forward matrix of ALBERT-large at the start
STEPS = 50


def algorithm_2(
    settings: OptimizerSection,
    weights: list[torch.Tensor],
    decays: list[float],
    gradients: list[list[torch.Tensor]],
) -> list[torch.Tensor]:
    """You et al. 2020, algorithm 2, line by line in float64; phi is the identity."""
    beta1, beta2 = settings.betas
    x = [one.double() for one in weights]
    m, v = ([torch.zeros_like(one) for one in x] for _ in range(2))
    for t, all_gradients in enumerate(gradients, 1):
        g = [one.double() for one in all_gradients]
        norm = float(torch.cat([one.flatten() for one in g]).norm())
        if norm > settings.max_gradient_norm:
            g = [one * settings.max_gradient_norm / norm for one in g]
        for i, decay in enumerate(decays):
            m[i] = beta1 * m[i] + (1 - beta1) * g[i]
            v[i] = beta2 * v[i] + (1 - beta2) * g[i] ** 2
            m_hat, v_hat = m[i] / (1 - beta1**t), v[i] / (1 - beta2**t)
            r = m_hat / (v_hat.sqrt() + settings.epsilon)
            update = r + decay * x[i]
            x[i] = x[i] - settings.learning_rate * x[i].norm() / update.norm() * update
    return x


def drawn(shapes: list[tuple[int, ...]], norms: list[float], seed: int) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    tensors = [torch.randn(shape, generator=generator) for shape in shapes]
    return [tensor * (norm / tensor.norm()) for tensor, norm in zip(tensors, norms, strict=True)]


def stepped(
    settings: OptimizerSection,
    weights: list[torch.Tensor],
    decays: list[float],
    gradients: list[list[torch.Tensor]],
) -> list[torch.Tensor]:
    """The weights after a step of `Lamb` along each of the gradients."""
    own = [torch.nn.Parameter(one.clone()) for one in weights]
    lamb = Lamb(settings, [{"params": [one], "weight_decay": decay} for one, decay in zip(own, decays, strict=True)])
    for each in gradients:
        take_step(lamb, own, each)
    return [one.detach() for one in own]


def take_step(optimizer: torch.optim.Optimizer, parameters: list[torch.nn.Parameter], gradients: list[torch.Tensor]):
    for parameter, gradient in zip(parameters, gradients, strict=True):
        parameter.grad = gradient.clone()
    optimizer.step()


def off(ours: torch.Tensor, reference: torch.Tensor) -> float:
    """The norm of the difference relative to that of the reference."""
    return float((ours.double() - reference.double()).norm() / reference.double().norm())


@pytest.mark.parametrize("gradient_norm", [1e-3, 50.0], ids=["as it is", "scaled down"])
@pytest.mark.parametrize("decay", [0.0, 0.01, 0.3])
@pytest.mark.parametrize("betas", [(0.9, 0.999), (0.9, 0.98)], ids=str)
def test_fifty_steps_are_those_of_the_paper(betas: tuple[float, float], decay: float, gradient_norm: float):
    settings = SETTINGS.model_copy(update={"betas": betas})
    shapes = [(300, 400), (64, 32), (128, 1), (50, 7), (17,)]
    weights, decays = drawn(shapes, list(NORMS), seed=0), [decay] * len(shapes)
    gradients = [drawn(shapes, [gradient_norm * share for share in (1, 2, 3, 4, 5)], seed=1 + t) for t in range(STEPS)]
    ours = stepped(settings, weights, decays, gradients)
    reference = algorithm_2(settings, weights, decays, gradients)
    for begun, own, expected in zip(weights, ours, reference, strict=True):
        assert off(begun, expected) > 0.01  # it went somewhere
        assert off(own, expected) < 1e-6


def test_a_large_matrix_has_its_true_norm():
    shape = (4096, 1024)  # added up in float32, its norm is off by 1e-4
    settings = SETTINGS.model_copy(update={"learning_rate": 0.5})
    weights = drawn([shape], [41.0], seed=0)
    gradients = [drawn([shape], [3.0], seed=1 + t) for t in range(2)]
    ours = stepped(settings, weights, [0.01], gradients)
    assert off(ours[0], algorithm_2(settings, weights, [0.01], gradients)[0]) < 1e-6


@pytest.mark.parametrize("decay", [0.0, 0.1])
@pytest.mark.parametrize("epsilon", [1e-8, 1e-3])
def test_without_a_trust_ratio_it_is_adamw(epsilon: float, decay: float):
    settings = SETTINGS.model_copy(update={"name": "adamw", "epsilon": epsilon, "max_gradient_norm": 1e9})
    shapes: list[tuple[int, ...]] = [(30, 40), (64,)]
    weights = drawn(shapes, [0.1, 100.0], seed=0)
    gradients = [drawn(shapes, [0.01, 5.0], seed=1 + t) for t in range(STEPS)]
    twins = [torch.nn.Parameter(one.clone()) for one in weights]
    adam = torch.optim.AdamW(twins, settings.learning_rate, settings.betas, epsilon, decay)
    for each in gradients:
        take_step(adam, twins, each)
    for begun, own, twin in zip(weights, stepped(settings, weights, [decay] * 2, gradients), twins, strict=True):
        assert off(begun, twin.detach()) > 1e-3
        assert off(own, twin.detach()) < 1e-6


def test_weights_of_zero_and_updates_of_zero_have_a_trust_ratio_of_one():
    settings = SETTINGS.model_copy(update={"max_gradient_norm": 1e9})
    weights = [torch.zeros(3, 2), torch.ones(3, 2), torch.zeros(3, 2)]
    gradients = [torch.full((3, 2), 5.0), torch.zeros(3, 2), torch.zeros(3, 2)]
    moved, *still = stepped(settings, weights, [0.0] * 3, [gradients])
    torch.testing.assert_close(moved, torch.full((3, 2), -settings.learning_rate))  # Adam's first step
    assert torch.equal(still[0], weights[1]) and torch.equal(still[1], weights[2])


def test_the_number_of_threads_changes_not_a_bit():
    shapes = [(1031, 257), (300_007,), (513, 1), (3, 100_003)]  # beyond torch's grain, no multiple of a vector's length
    weights, decays = drawn(shapes, [0.1, 41.0, 1.0, 100.0], seed=0), [0.01, 0.0, 0.01, 0.3]
    gradients = [drawn(shapes, [0.3, 5.0, 1.0, 0.1], seed=1 + t) for t in range(3)]
    before, results = torch.get_num_threads(), []
    try:
        for threads in (1, 2, 3, 5, 16):
            torch.set_num_threads(threads)
            results.append(stepped(SETTINGS, weights, decays, gradients))
    finally:
        torch.set_num_threads(before)
    for result in results[1:]:
        assert all(torch.equal(one, other) for one, other in zip(results[0], result, strict=True))


def test_it_begins_with_all_its_state_and_no_step_taken():
    model, lamb = small_lamb()
    for group in lamb.param_groups:
        assert group["step"] == 0 and group["lr"] == SETTINGS.learning_rate
    for parameter in model.parameters():
        averages = [lamb.state[parameter][name] for name in ("exp_avg", "exp_avg_sq")]
        assert all(average.shape == parameter.shape and not average.any() for average in averages)


def test_weights_and_gradients_stay_as_they_are_when_it_is_made():
    model = small_model()
    before = [parameter.detach().clone() for parameter in model.parameters()]
    gradients = [torch.full_like(parameter, 0.5) for parameter in model.parameters()]
    for parameter, gradient in zip(model.parameters(), gradients, strict=True):
        parameter.grad = gradient
    Lamb(SETTINGS, [{"params": list(model.parameters())}])
    assert all(torch.equal(old, new) for old, new in zip(before, model.parameters(), strict=True))
    assert all(parameter.grad is gradient for parameter, gradient in zip(model.parameters(), gradients, strict=True))


def test_a_step_leaves_gradients_as_they_are_and_tensors_without_one():
    model, lamb = small_lamb()
    weight, bias = model.parameters()
    gradient, before = torch.full_like(weight, 5.0), bias.detach().clone()
    weight.grad = gradient.clone()
    lamb.step()
    assert torch.equal(weight.grad, gradient) and torch.equal(bias, before)
    assert not lamb.state[bias]["exp_avg"].any()


@pytest.mark.parametrize("way", ["as in a checkpoint", "as peers share it"])
def test_another_peer_goes_on_from_its_state(way: str):
    (model, lamb), (twin, other) = small_lamb(), small_lamb()
    for _ in range(3):
        one_step(model, lamb)
    twin.load_state_dict(model.state_dict())
    if way == "as in a checkpoint":
        other.load_state_dict(deepcopy(lamb.state_dict()))
    else:
        metadata, tensors = dump_optimizer_state(lamb)
        load_optimizer_state(other, metadata, [tensor.clone() for tensor in tensors])
    assert [group["step"] for group in other.param_groups] == [3]
    one_step(model, lamb)
    one_step(twin, other)
    assert all(torch.equal(one, two) for one, two in zip(model.parameters(), twin.parameters(), strict=True))


def test_a_peer_that_gives_its_state_does_not_choose_betas_epsilon_or_limits():
    (model, lamb), (twin, other) = small_lamb(), small_lamb()
    foreign = small_lamb()[1].state_dict()
    for group in foreign["param_groups"]:
        group.update(betas=(0.0, 0.0), eps=1.0, max_grad_norm=1e9, trust_ratio=False)
    other.load_state_dict(foreign)
    one_step(model, lamb)
    one_step(twin, other)
    assert all(torch.equal(one, two) for one, two in zip(model.parameters(), twin.parameters(), strict=True))


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


def small_model() -> torch.nn.Linear:
    torch.manual_seed(0)
    return torch.nn.Linear(3, 2)


def small_lamb() -> tuple[torch.nn.Linear, Lamb]:
    model = small_model()
    groups: list[dict[str, Any]] = [{"params": list(model.parameters())}]
    return model, Lamb(SETTINGS, groups)


def one_step(model: torch.nn.Linear, optimizer: Lamb):
    model.zero_grad()
    model(torch.ones(2, 3)).square().sum().backward()
    optimizer.step()
