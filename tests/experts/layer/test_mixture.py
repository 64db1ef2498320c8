"""The layer adds the weighted answers to the trunk, learns with its experts, and is zero without them."""

from collections.abc import Mapping

import pytest
import torch
from torch import nn

from experts.expert import Expert, new_expert
from experts.grid import Grid, Uid, all_uids
from experts.layer.local import LocalExperts
from experts.layer.mixture import BatchCounts, MixtureOfExperts

GRID = (2, 2)
TRUNK, WIDTH = 12, 8


def some_experts(grid: Grid = GRID) -> dict[Uid, Expert]:
    return {uid: new_expert(WIDTH, 16, seed) for seed, uid in enumerate(all_uids(grid))}


def made(caller: LocalExperts, *, fresh: bool = False, off_share: float = 0.0) -> MixtureOfExperts:
    torch.manual_seed(0)
    layer = MixtureOfExperts(TRUNK, WIDTH, GRID, caller, off_share=off_share)
    if not fresh:
        nn.init.normal_(layer.up.weight, std=0.3)
    return layer


def rows(count: int = 10, seed: int = 0) -> torch.Tensor:
    return torch.randn(count, TRUNK, generator=torch.Generator().manual_seed(seed))


def test_what_is_added_is_the_weighted_sum_of_the_two_best_experts():
    experts = some_experts()
    layer = made(LocalExperts(experts))
    mixture = layer(rows())
    for row, added in zip(rows(), mixture.added, strict=True):
        first, second = (scores.squeeze(0) for scores in layer.gate(row[None]))
        scores = {uid: first[uid[0]] + second[uid[1]] for uid in experts}
        best = sorted(scores, key=lambda uid: -float(scores[uid]))[:2]
        weights = torch.stack([scores[uid] for uid in best]).softmax(0)
        sent = layer.down(row[None])
        expected = layer.up(sum(weight * experts[uid](sent) for weight, uid in zip(weights, best, strict=True)))
        torch.testing.assert_close(added, expected.squeeze(0))


def test_a_fresh_layer_is_the_trunk():
    layer = made(LocalExperts(some_experts()), fresh=True)
    assert not layer(rows()).added.any()
    layer(rows()).added.sum().backward()
    assert layer.up.weight.grad is not None
    assert layer.up.weight.grad.any()  # and can begin to learn


@pytest.mark.parametrize("failures", [0.0, 1.0], ids=["all have died", "all are silent"])
def test_without_answers_the_term_is_zero_and_training_goes_on(failures: float):
    caller = LocalExperts(some_experts() if failures else {}, failures=failures)
    layer, inputs = made(caller), rows().requires_grad_()
    mixture = layer(inputs)
    assert not mixture.added.any()
    (mixture.added.sum() + mixture.balancing_loss).backward()
    assert all(one.grad is None or one.grad.isfinite().all() for one in layer.parameters())


def test_experts_are_given_a_rows_gradient_whatever_the_size_of_its_batch():
    """A trainer with twice the rows counts twice in their steps, although its loss is a mean."""
    given, own = list[torch.Tensor](), list[torch.Tensor]()

    class Noting(LocalExperts):
        def backward(
            self, inputs: Mapping[Uid, torch.Tensor], gradients: Mapping[Uid, torch.Tensor]
        ) -> dict[Uid, torch.Tensor]:
            given.append(gradients[uid][:1])
            return super().backward(inputs, gradients)

    uid = (0, 0)
    for times in (1, 2):
        layer = made(Noting({uid: some_experts()[uid]}, learning_rate=None))
        layer(rows().repeat(times, 1)).added.square().mean().backward()
        assert layer.down.weight.grad is not None
        own.append(layer.down.weight.grad)
    torch.testing.assert_close(*given)
    torch.testing.assert_close(*own)


def test_experts_are_off_in_the_given_share_of_the_training_batches():
    layer = made(LocalExperts(some_experts()), off_share=0.15)
    off = sum(not layer(rows(2)).added.any() for _ in range(400))
    assert off / 400 == pytest.approx(0.15, abs=0.06)
    layer.eval()
    assert all(layer(rows(2)).added.any() for _ in range(50))


def test_batches_in_which_each_row_has_all_its_answers_are_counted_in_training_alone():
    caller = LocalExperts(some_experts())
    layer = made(caller).train()
    for _ in range(3):
        layer(rows())
    caller.lose(list(caller.alive())[1:])
    layer(rows())  # one expert is alive, and rows may have two
    layer.eval()(rows())
    assert layer.counts == BatchCounts(batches=4, whole=3)


def test_the_state_of_the_layer_holds_no_expert():
    layer = made(LocalExperts(some_experts()))
    assert set(layer.state_dict()) == {
        "gate.score.weight",
        "gate.score.bias",
        "down.weight",
        "down.bias",
        "up.weight",
    }


@pytest.mark.parametrize(("failures", "loss"), [(0.0, 0.6), (0.1, 0.7)])
def test_layer_and_experts_learn_together_also_when_a_tenth_of_the_calls_fail(failures: float, loss: float):
    """The loss is relative to that of doing nothing; the function to be learned differs by region."""
    caller = LocalExperts(some_experts(), learning_rate=5e-3, failures=failures)
    layer = made(caller, fresh=True)
    teacher = torch.randn(2, TRUNK, TRUNK, generator=torch.Generator().manual_seed(5)) / TRUNK**0.5
    optimizer = torch.optim.Adam(layer.parameters(), lr=5e-3)

    def target(inputs: torch.Tensor) -> torch.Tensor:
        return torch.where(inputs[:, :1] > 0, inputs @ teacher[0], inputs @ teacher[1])

    for step in range(150):
        inputs = rows(64, seed=step)
        mixture = layer(inputs)
        optimizer.zero_grad()
        ((mixture.added - target(inputs)).square().mean() + 0.01 * mixture.balancing_loss).backward()
        optimizer.step()
    inputs = rows(500, seed=10_000)
    layer.eval()
    with torch.no_grad():
        assert (layer(inputs).added - target(inputs)).square().mean() < loss * target(inputs).square().mean()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
def test_the_layer_works_on_a_gpu():
    layer = made(LocalExperts(some_experts()))
    expected = layer(rows()).added
    on_gpu = layer.cuda()(rows().cuda())
    on_gpu.added.sum().backward()
    torch.testing.assert_close(on_gpu.added.cpu(), expected, rtol=1e-4, atol=1e-5)
