"""Steps of one expert: what each caller adds, what is too old, and what is no number."""

import pytest
import torch
from torch import Tensor

from experts.host.settings import ExpertSettings
from experts.host.state import from_bytes, to_bytes
from experts.host.trained_expert import Gradients, NotFinite, TrainedExpert

SETTINGS = ExpertSettings(grid=(2, 2), width=8, hidden=16, learning_rate=0.01)
UID = (1, 0)


def sent(rows: int = 4, scale: float = 1.0, fresh: bool = True, seed: int = 0) -> Gradients:
    chance = torch.Generator().manual_seed(seed)
    inputs, outputs = torch.randn(2, rows, SETTINGS.width, generator=chance)
    return Gradients(inputs, outputs * scale, [fresh] * rows)


def flat(gradients: list[Tensor]) -> Tensor:
    return torch.cat([one.flatten() for one in gradients])


def weights(expert: TrainedExpert) -> Tensor:
    return torch.cat([parameter.detach().flatten().clone() for parameter in expert.parameters])


def test_gradients_of_inputs_are_those_before_the_step():
    expert = TrainedExpert(UID, SETTINGS)
    one = sent()
    inputs = one.inputs.clone().requires_grad_()
    expert.network(inputs).backward(one.outputs)
    (answer,) = expert.backward([one])
    assert isinstance(answer, Tensor)
    torch.testing.assert_close(answer, inputs.grad)
    assert expert.version == 1


def test_a_step_is_one_of_torchs_adam():
    expert, twin = TrainedExpert(UID, SETTINGS), SETTINGS.new(UID)
    optimizer = torch.optim.Adam(twin.parameters(), lr=SETTINGS.learning_rate, fused=False)
    for seed in range(3):
        one = sent(scale=0.01, seed=seed)
        expert.backward([one])
        optimizer.zero_grad()
        twin(one.inputs).backward(one.outputs)
        optimizer.step()
    torch.testing.assert_close(flat(list(expert.network.parameters())), flat(list(twin.parameters())))


def test_the_first_step_is_as_long_as_the_schedule_says():
    moved = []
    for factor in (1.0, 0.5, 0.0):
        expert = TrainedExpert(UID, SETTINGS)
        before = weights(expert)
        expert.backward([sent()], factor)
        assert expert.version == (1 if factor else 0), "a step that learns nothing is none"
        assert bool(expert.optimizer.state) == bool(factor)
        moved.append(weights(expert) - before)
    torch.testing.assert_close(moved[1], moved[0] / 2, rtol=1e-4, atol=1e-7)
    assert moved[0].abs().max() > 0 and not moved[2].any()


def test_a_caller_with_huge_gradients_adds_no_more_than_a_usual_one():
    """Its share of the summed gradient is clipped, so the step of the others keeps its direction."""
    seen: list[Tensor] = []
    for scale in (1e3, 1e9):
        expert = TrainedExpert(UID, SETTINGS)
        expert._step = lambda gradients, _: seen.append(flat(gradients))  # type: ignore[method-assign, assignment]
        expert.backward([sent(seed=1), sent(scale=scale, seed=2)])
    torch.testing.assert_close(seen[0], seen[1])
    assert float(seen[0].norm()) <= 2 * SETTINGS.max_grad_norm + 1e-5


@pytest.mark.parametrize("is_read", [False, True], ids=["in the host", "of a state that was just read"])
def test_a_gradient_a_thousand_times_as_large_makes_later_steps_hardly_shorter(is_read: bool):
    moved = []
    for outlier in (1e-5, 1e-2):
        expert = TrainedExpert(UID, SETTINGS)
        for seed in range(300):
            expert.backward([sent(scale=1e-5, seed=seed)])
        if is_read:
            expert = from_bytes(UID, SETTINGS, to_bytes(expert))
        expert.backward([sent(scale=outlier, seed=300)])
        for seed in range(301, 400):  # its mean is over
            expert.backward([sent(scale=1e-5, seed=seed)])
        before = weights(expert)
        for seed in range(400, 410):
            expert.backward([sent(scale=1e-5, seed=seed)])
        moved.append(float((weights(expert) - before).norm()))
    assert moved[1] > 0.8 * moved[0]


def test_gradients_that_grow_from_nothing_are_soon_not_scaled():
    """At the start of a run they are zero, because the layer adds nothing yet."""
    expert, seen = TrainedExpert(UID, SETTINGS), list[Tensor]()
    for scale in (0.0, 0.0, 1e-12, 1e-4, 1e-4, 1e-4):
        expert._step = lambda gradients, _: seen.append(flat(gradients))  # type: ignore[method-assign, assignment]
        expert.backward([sent(scale=scale)])
    torch.testing.assert_close(seen[-1], seen[2] * 1e8)


def test_small_gradients_are_not_scaled():
    expert = TrainedExpert(UID, SETTINGS)
    one = sent(scale=1e-4)
    expert.network(one.inputs).backward(one.outputs)
    expected = torch.cat([parameter.grad.flatten() for parameter in expert.parameters if parameter.grad is not None])
    seen: list[Tensor] = []
    expert._step = lambda gradients, _: seen.append(flat(gradients))  # type: ignore[method-assign, assignment]
    expert.backward([one])
    torch.testing.assert_close(seen[0], expected)


def test_rows_that_are_too_old_are_answered_and_change_nothing():
    expert = TrainedExpert(UID, SETTINGS)
    before = weights(expert)
    (answer,) = expert.backward([sent(fresh=False)])
    assert isinstance(answer, Tensor)
    assert expert.version == 0
    assert torch.equal(weights(expert), before)


def test_only_the_fresh_rows_of_a_caller_count():
    whole, fresh = sent(), sent()
    mixed = Gradients(whole.inputs, whole.outputs, [True, True, False, False])
    alone = Gradients(fresh.inputs[:2], fresh.outputs[:2], [True, True])
    experts = [TrainedExpert(UID, SETTINGS), TrainedExpert(UID, SETTINGS)]
    (answer,) = experts[0].backward([mixed])
    experts[1].backward([alone])
    assert isinstance(answer, Tensor)
    assert answer.shape == whole.inputs.shape
    torch.testing.assert_close(weights(experts[0]), weights(experts[1]))


def test_how_old_is_too_old_in_both_directions():
    expert = TrainedExpert(UID, SETTINGS, version=100)
    oldest = SETTINGS.max_staleness
    assert expert.is_fresh(100 - oldest)
    assert not expert.is_fresh(100 - oldest - 1)
    assert expert.is_fresh(100 + oldest)  # the forward call was answered by one that had more steps, and is gone
    assert not expert.is_fresh(100 + oldest + 1)


def test_what_overflows_is_refused_and_harms_no_other():
    expert, alone = TrainedExpert(UID, SETTINGS), TrainedExpert(UID, SETTINGS)
    good, bad = sent(seed=1), sent(seed=2)
    bad = Gradients(bad.inputs, torch.full_like(bad.outputs, 3e38), bad.is_fresh)
    answers = expert.backward([bad, good])
    assert isinstance(answers[0], NotFinite)
    (expected,) = alone.backward([good])
    assert isinstance(answers[1], Tensor)
    assert isinstance(expected, Tensor)
    torch.testing.assert_close(answers[1], expected)
    assert torch.equal(weights(expert), weights(alone))
    before = weights(expert)
    expert.backward([bad])
    assert torch.equal(weights(expert), before)
    assert expert.version == 1


def test_everybody_begins_with_the_same_expert_and_each_with_another():
    assert torch.equal(weights(TrainedExpert(UID, SETTINGS)), weights(TrainedExpert(UID, SETTINGS)))
    assert not torch.equal(weights(TrainedExpert(UID, SETTINGS)), weights(TrainedExpert((0, 1), SETTINGS)))


@pytest.mark.parametrize("change", [{"width": 9}, {"hidden": 17}, {"grid": (4,)}, {"learning_rate": 0.1}, {"seed": 1}])
def test_settings_have_a_fingerprint(change: dict[str, object]):
    changed = ExpertSettings(**{**SETTINGS.__dict__, **change})
    assert changed.fingerprint != SETTINGS.fingerprint
    assert SETTINGS.fingerprint == ExpertSettings(**SETTINGS.__dict__).fingerprint
