"""A beam search over prefixes finds what looking at every expert finds, with few questions to the directory."""

import random
from collections.abc import Collection, Mapping

import pytest
import torch

from experts.grid import Grid, Uid, all_uids
from experts.layer.beam_search import BeamSearch, Prefix
from experts.layer.gate import NONE, best_alive


class Directory:
    """Prefixes of some living experts, and what it was asked."""

    def __init__(self, alive: Collection[Uid]):
        self._following: dict[Prefix, set[int]] = {}
        for uid in alive:
            for length, at in enumerate(uid):
                self._following.setdefault(uid[:length], set()).add(at)
        self.questions: list[Collection[Prefix]] = []

    def following(self, prefixes: Collection[Prefix]) -> Mapping[Prefix, Collection[int]]:
        self.questions.append(prefixes)
        return {prefix: self._following[prefix] for prefix in prefixes if prefix in self._following}


def random_scores(rows: int, grid: Grid, seed: int) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(rows, length, generator=generator) for length in grid]


def some(grid: Grid, share: float, seed: int) -> list[Uid]:
    drawn = random.Random(seed)
    return [uid for uid in all_uids(grid) if drawn.random() < share]


@pytest.mark.parametrize("grid", [(16, 16), (8, 8, 8), (4, 4, 4, 4)])
def test_with_all_experts_alive_the_best_are_found_by_a_beam_as_wide_as_a_row_has_experts(grid: Grid):
    scores = random_scores(50, grid, seed=0)
    alive = list(all_uids(grid))
    found = BeamSearch(Directory(alive), beam=1)(scores, 4)
    assert torch.equal(found.coordinates, best_alive(scores, alive, 4).coordinates)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("share", "same"), [(0.9, 0.99), (0.5, 0.99), (0.1, 0.97)])
def test_with_dead_experts_most_rows_get_the_best_from_a_beam_of_eight_times_as_many(
    seed: int, share: float, same: float
):
    grid = (16, 16, 16)
    scores, alive = random_scores(100, grid, seed), some(grid, share, seed)
    found = BeamSearch(Directory(alive), beam=32)(scores, 4).coordinates
    assert {tuple(uid) for uid in found.flatten(0, 1).tolist()} <= set(alive)
    best = best_alive(scores, alive, 4).coordinates
    assert float((found == best).all(dim=2).float().mean()) >= same


def test_a_beam_of_all_prefixes_is_exhaustive():
    grid = (4, 4, 4)
    scores, alive = random_scores(40, grid, seed=0), some(grid, 0.2, seed=1)
    found = BeamSearch(Directory(alive), beam=16)(scores, 3)
    best = best_alive(scores, alive, 3)
    assert torch.equal(found.coordinates, best.coordinates)
    assert all(torch.equal(one, other) for one, other in zip(found.living, best.living, strict=True))


def test_the_directory_is_asked_once_for_each_dimension_and_of_the_beam_alone():
    directory = Directory(list(all_uids((64, 64, 64)))[::7])
    BeamSearch(directory, beam=4)(random_scores(10, (64, 64, 64), seed=0), 2)
    assert [len(asked) <= 10 * 4 for asked in directory.questions] == [True] * 3


def test_a_row_whose_prefixes_lead_nowhere_has_no_experts():
    class Forgetful(Directory):
        """Names a first coordinate whose experts have meanwhile died."""

        def following(self, prefixes: Collection[Prefix]) -> Mapping[Prefix, Collection[int]]:
            return {**super().following(prefixes), **({(): {0, 1, 2, 3}} if () in prefixes else {})}

    scores = [torch.tensor([[9.0, 8.0, 0.0, 0.0], [0.0, 0.0, 9.0, 8.0]]), torch.zeros(2, 2)]
    found = BeamSearch(Forgetful([(2, 0), (2, 1)]), beam=2)(scores, 2)
    assert found.coordinates[0].tolist() == [[NONE, NONE], [NONE, NONE]]
    assert found.coordinates[1].tolist() == [[2, 0], [2, 1]]


def test_no_living_expert_is_no_choice():
    assert BeamSearch(Directory([]), beam=2)(random_scores(3, (4, 4), seed=0), 2).coordinates.shape == (3, 0, 2)


def test_coordinates_outside_of_the_grid_are_ignored():
    directory = Directory([(7, 0), (1, 9), (1, -1), (1, 1)])
    found = BeamSearch(directory, beam=4)(random_scores(2, (4, 4), seed=0), 2)
    assert found.coordinates.tolist() == [[[1, 1]], [[1, 1]]]
