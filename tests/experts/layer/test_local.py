"""Experts of this process answer as hosts do: they learn by themselves, late if asked to, and calls may be lost."""

import pytest
import torch

from experts.expert import Expert, new_expert
from experts.grid import Uid
from experts.layer.local import LocalExperts, vector_jacobian

A, B = (0, 0), (0, 1)


def two_experts() -> dict[Uid, Expert]:
    return {uid: new_expert(8, 16, seed) for seed, uid in enumerate((A, B))}


def rows(count: int = 5, seed: int = 0) -> torch.Tensor:
    return torch.randn(count, 8, generator=torch.Generator().manual_seed(seed))


def parameters(expert: Expert) -> torch.Tensor:
    return torch.cat([one.detach().flatten() for one in expert.parameters()])


def test_outputs_are_those_of_the_experts():
    experts = two_experts()
    outputs = LocalExperts(experts).forward({A: rows(3), B: rows(2)})
    torch.testing.assert_close(outputs, {A: experts[A](rows(3)), B: experts[B](rows(2))})
    assert not outputs[A].requires_grad


def test_gradients_are_those_of_the_chain_rule():
    expert, inputs, gradients = new_expert(8, 16, 0), rows().requires_grad_(), rows(seed=1)
    (expert(inputs) * gradients).sum().backward()
    of_rows, of_parameters = vector_jacobian(expert, inputs, gradients, list(expert.parameters()))
    torch.testing.assert_close(of_rows, inputs.grad)
    torch.testing.assert_close(list(of_parameters), [one.grad for one in expert.parameters()])


def test_an_expert_takes_a_step_of_adam_with_each_backward_call_and_the_others_none():
    experts, twin = two_experts(), new_expert(8, 16, 0)
    optimizer = torch.optim.Adam(twin.parameters(), lr=1e-3)
    before, caller = parameters(experts[B]), LocalExperts(experts, learning_rate=1e-3)
    for seed in range(3):
        caller.backward({A: rows()}, {A: rows(seed=seed)})
        optimizer.zero_grad()
        (twin(rows()) * rows(seed=seed)).sum().backward()
        optimizer.step()
    torch.testing.assert_close(parameters(experts[A]), parameters(twin))
    assert torch.equal(parameters(experts[B]), before)


def test_experts_follow_a_schedule():
    experts = two_experts()
    caller, before = LocalExperts(experts), parameters(experts[A])
    caller.schedule_factor = 0.0
    caller.backward({A: rows()}, {A: rows(seed=1)})
    assert torch.equal(parameters(experts[A]), before)


def test_a_gradient_is_applied_after_the_delay():
    experts = two_experts()
    caller = LocalExperts(experts, delay=2)
    begin = parameters(experts[A])
    caller.backward({A: rows()}, {A: rows(seed=1)})
    caller.backward({B: rows()}, {B: rows(seed=1)})
    assert torch.equal(parameters(experts[A]), begin)
    caller.backward({B: rows()}, {B: rows(seed=1)})
    once = parameters(experts[A])
    assert not torch.equal(once, begin)
    caller.backward({B: rows()}, {B: rows(seed=1)})
    assert torch.equal(parameters(experts[A]), once)


def test_experts_of_a_release_do_not_learn():
    experts = two_experts()
    before = parameters(experts[A])
    of_rows = LocalExperts(experts, learning_rate=None).backward({A: rows()}, {A: rows(seed=1)})
    assert of_rows[A].any()
    assert torch.equal(parameters(experts[A]), before)


def test_lost_experts_do_not_answer_and_their_waiting_gradients_vanish():
    experts = two_experts()
    caller = LocalExperts(experts, delay=1)
    caller.backward({A: rows()}, {A: rows()})
    caller.lose([A])
    assert set(caller.alive()) == {B}
    assert set(caller.forward({A: rows(), B: rows()})) == {B}
    assert set(caller.backward({A: rows(), B: rows()}, {A: rows(), B: rows()})) == {B}


def test_as_many_calls_are_lost_as_the_network_loses_in_both_directions():
    caller = LocalExperts(two_experts(), failures=0.3)
    forward = sum(len(caller.forward({A: rows(), B: rows()})) for _ in range(200))
    backward = sum(len(caller.backward({A: rows(), B: rows()}, {A: rows(), B: rows()})) for _ in range(200))
    assert forward / 400 == pytest.approx(0.7, abs=0.07)
    assert backward / 400 == pytest.approx(0.7, abs=0.07)


def test_a_lost_backward_call_is_no_step():
    experts = two_experts()
    before = parameters(experts[A])
    assert not LocalExperts(experts, failures=1.0).backward({A: rows()}, {A: rows(seed=1)})
    assert torch.equal(parameters(experts[A]), before)
