"""The gate chooses the living experts with the highest sums of scores, and weighs those that answered."""

import itertools

import pytest
import torch

from experts.grid import Uid, all_uids
from experts.layer.gate import NONE, Choice, ProductGate, balancing_loss, best_alive, weights_of

GRID = (4, 3, 5)


def random_scores(rows: int, grid: tuple[int, ...] = GRID, seed: int = 0) -> tuple[torch.Tensor, ...]:
    generator = torch.Generator().manual_seed(seed)
    return tuple(torch.randn(rows, length, generator=generator) for length in grid)


def score_of(scores: tuple[torch.Tensor, ...], row: int, uid: Uid) -> float:
    return sum(float(one[row, at]) for one, at in zip(scores, uid, strict=True))


def test_the_score_of_a_coordinate_is_linear_in_the_row():
    gate = ProductGate(8, GRID)
    rows = torch.randn(6, 8)
    scores = gate(rows)
    assert [tuple(one.shape) for one in scores] == [(6, length) for length in GRID]
    torch.testing.assert_close(torch.cat(scores, 1), rows @ gate.score.weight.T + gate.score.bias)


@pytest.mark.parametrize("seed", range(3))
def test_the_best_living_experts_are_chosen_best_first(seed: int):
    scores = random_scores(20, seed=seed)
    alive = [uid for number, uid in enumerate(all_uids(GRID)) if number % 3 != seed]
    chosen = best_alive(scores, alive, 4).coordinates
    for row in range(20):
        best = sorted(alive, key=lambda uid: -score_of(scores, row, uid))[:4]
        assert [tuple(uid) for uid in chosen[row].tolist()] == best


def test_many_rows_are_chosen_for_some_at_a_time(monkeypatch: pytest.MonkeyPatch):
    scores, alive = random_scores(20), list(all_uids(GRID))
    at_once = best_alive(scores, alive, 4)
    monkeypatch.setattr("experts.layer.gate.AT_ONCE", 3 * len(alive))
    assert torch.equal(best_alive(scores, alive, 4).coordinates, at_once.coordinates)


def test_a_row_has_no_more_experts_than_are_alive():
    assert best_alive(random_scores(5), [(1, 2, 3), (0, 0, 0)], 4).coordinates.shape == (5, 2, 3)
    assert best_alive(random_scores(5), [], 4).coordinates.shape == (5, 0, 3)
    assert best_alive(random_scores(0), [(1, 2, 3)], 4).coordinates.shape == (0, 1, 3)


def test_experts_that_the_grid_has_no_room_for_are_not_chosen():
    outside = [(4, 0, 0), (0, -1, 0), (0, 0), (0, 0, 0, 0)]
    assert best_alive(random_scores(1), [*outside, (3, 2, 4)], 4).coordinates.tolist() == [[[3, 2, 4]]]


def test_coordinates_of_living_experts_are_known():
    living = best_alive(random_scores(1), [(1, 2, 3), (0, 2, 3)], 1).living
    assert [one.nonzero().flatten().tolist() for one in living] == [[0, 1], [2], [3]]


def test_weights_are_a_softmax_over_those_that_answered():
    scores = random_scores(2)
    choice = best_alive(scores, list(all_uids(GRID)), 3)
    answered = torch.tensor([[True, False, True], [True, True, True]])
    weights = weights_of(scores, choice, answered)
    for row, heard in enumerate(answered.tolist()):
        uids = [tuple(uid) for uid in choice.coordinates[row].tolist()]
        sums = torch.tensor([score_of(scores, row, uid) for uid in itertools.compress(uids, heard)])
        torch.testing.assert_close(weights[row][answered[row]], sums.softmax(0))
        assert not weights[row][~answered[row]].any()


def test_a_row_without_answers_has_no_weights_and_harmless_gradients():
    scores = tuple(one.requires_grad_() for one in random_scores(2))
    choice = best_alive([one.detach() for one in scores], list(all_uids(GRID)), 2)
    weights = weights_of(scores, choice, torch.tensor([[False, False], [True, False]]))
    assert weights.tolist() == [[0, 0], [1, 0]]
    weights.sum().backward()
    assert all(one.grad is not None and one.grad.isfinite().all() for one in scores)


def test_a_missing_expert_gets_no_weight():
    choice = Choice(torch.tensor([[[1, 1], [NONE, NONE]]]), (torch.ones(2).bool(), torch.ones(2).bool()))
    assert choice.is_there.tolist() == [[True, False]]
    assert weights_of(random_scores(1, (2, 2)), choice, choice.is_there).tolist() == [[1, 0]]


def one_dimension(chosen: list[int], living: list[bool]) -> Choice:
    return Choice(torch.tensor(chosen).view(-1, 1, 1), (torch.tensor(living),))


def test_the_balancing_loss_is_zero_for_even_use_and_one_for_one_of_two():
    even, certain = torch.zeros(4, 2), torch.tensor([[30.0, -30.0]] * 4)
    assert float(balancing_loss([even], one_dimension([0, 1, 0, 1], [True, True]))) == pytest.approx(0)
    assert float(balancing_loss([certain], one_dimension([0, 0, 0, 0], [True, True]))) == pytest.approx(1)


def test_the_balancing_loss_of_dimensions_is_their_mean():
    scores = [torch.zeros(4, 2), torch.tensor([[30.0, -30.0]] * 4)]
    chosen = torch.tensor([[0, 0], [1, 0], [0, 0], [1, 0]]).unsqueeze(1)
    both = Choice(chosen, (torch.ones(2).bool(), torch.ones(2).bool()))
    assert float(balancing_loss(scores, both)) == pytest.approx(0.5)


def test_coordinates_without_living_experts_are_no_imbalance():
    scores = [torch.tensor([[0.0, 0.0, 30.0]] * 4)]
    assert float(balancing_loss(scores, one_dimension([0, 1, 0, 1], [True, True, False]))) == pytest.approx(0)


def test_the_balancing_loss_makes_use_more_even():
    gate = ProductGate(8, (4, 4))
    rows = torch.randn(256, 8, generator=torch.Generator().manual_seed(0)) + 1.0
    torch.nn.init.normal_(gate.score.weight, generator=torch.Generator().manual_seed(1))
    optimizer = torch.optim.Adam(gate.parameters(), lr=0.05)

    def loss() -> torch.Tensor:
        scores = gate(rows)
        return balancing_loss(scores, best_alive([one.detach() for one in scores], list(all_uids((4, 4))), 2))

    before = float(loss().detach())
    for _ in range(50):
        optimizer.zero_grad()
        loss().backward()
        optimizer.step()
    assert float(loss().detach()) < before / 3


def test_nothing_chosen_is_no_imbalance():
    scores = random_scores(3)
    assert float(balancing_loss(scores, best_alive(scores, [], 2))) == 0
