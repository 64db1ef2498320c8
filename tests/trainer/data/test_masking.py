"""Which tokens are masked."""

import numpy as np
import pytest
from numpy.typing import NDArray

from trainer.data.masking import choose_masked, corrupt

FRACTION = 0.15


class Recorded:
    """A random generator that remembers its draws."""

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)
        self.draws: list[NDArray[np.float64]] = []

    def random(self, shape: tuple[int, ...]) -> NDArray[np.float64]:
        self.draws.append(self._rng.random(shape))
        return self.draws[-1]


def framed(rng: np.random.Generator, rows: int = 64, width: int = 128) -> NDArray[np.bool_]:
    """Samples of random length: False on [CLS], two [SEP] and padding."""
    maskable = np.zeros((rows, width), dtype=bool)
    for row in maskable:
        length = int(rng.integers(8, width + 1))
        row[1 : length - 1] = True
        row[int(rng.integers(2, length - 2))] = False
    return maskable


def one_by_one(
    maskable: NDArray[np.bool_], priorities: NDArray[np.float64], lengths: NDArray[np.int64], fraction: float
) -> NDArray[np.bool_]:
    """What `choose_masked` claims to do, span after span: the best first, the last one cut short."""
    chosen = np.zeros_like(maskable)
    for row in range(len(maskable)):
        starts = np.flatnonzero(maskable[row])
        left = max(1, round(len(starts) * fraction)) if len(starts) else 0
        for start in starts[np.argsort(priorities[row, starts])]:
            for place in range(start, start + lengths[row, start]):
                if place == maskable.shape[1] or not maskable[row, place]:
                    break
                if left and not chosen[row, place]:
                    chosen[row, place] = True
                    left -= 1
    return chosen


def runs_of(row: NDArray[np.bool_]) -> list[int]:
    edges = np.flatnonzero(np.diff(np.concatenate([[0], row.astype(int), [0]])))
    return [int(end - start) for start, end in zip(edges[::2], edges[1::2], strict=True)]


@pytest.mark.parametrize("max_ngram", [1, 2, 3, 8])
def test_the_vectorized_choice_is_that_of_a_slow_loop_on_the_same_draws(max_ngram: int) -> None:
    for seed in range(5):
        maskable = framed(np.random.default_rng(seed))
        recorded = Recorded(seed)
        chosen = choose_masked(maskable, FRACTION, max_ngram, recorded)  # type: ignore[arg-type]
        priorities, draws = recorded.draws
        weights = 1 / np.arange(1, max_ngram + 1)
        lengths = 1 + np.searchsorted(np.cumsum(weights) / weights.sum(), draws, side="right")
        assert (chosen == one_by_one(maskable, priorities, lengths, FRACTION)).all()


@pytest.mark.parametrize("max_ngram", [1, 3, 8])
def test_each_row_has_exactly_its_budget_and_nothing_special_is_masked(max_ngram: int) -> None:
    rng = np.random.default_rng(7)
    maskable = framed(rng, rows=300)
    chosen = choose_masked(maskable, FRACTION, max_ngram, rng)
    assert not (chosen & ~maskable).any()
    assert chosen.sum(axis=1).tolist() == [max(1, round(n * FRACTION)) for n in maskable.sum(axis=1).tolist()]


def test_a_row_of_few_tokens_has_one_masked_and_a_row_of_none_has_none() -> None:
    maskable = np.array([[False, True, False, False], [False] * 4, [False, True, True, False]])
    chosen = choose_masked(maskable, FRACTION, 3, np.random.default_rng(0))
    assert chosen.sum(axis=1).tolist() == [1, 0, 1]


def test_a_span_does_not_go_on_behind_a_separator() -> None:
    # one span of 8 tokens would cover the row; it has to start anew behind the gap
    maskable = np.array([[True] * 4 + [False] + [True] * 4] * 2000)
    rng = np.random.default_rng(1)
    whole = (choose_masked(maskable, 0.5, 8, rng)[:, 3:6:2]).all(axis=1).mean()
    joined = choose_masked(np.ones((2000, 8), dtype=bool), 0.5, 8, rng)[:, 3:5].all(axis=1).mean()
    assert whole < 0.6 * joined


def test_span_lengths_have_probabilities_proportional_to_one_by_n() -> None:
    # few masked tokens in long rows: spans hardly ever touch, and only each row's last one is cut
    maskable = np.ones((2000, 2000), dtype=bool)
    chosen = choose_masked(maskable, 0.01, 3, np.random.default_rng(2))
    lengths = [length for row in chosen for length in runs_of(row)]
    counts = np.bincount(lengths, minlength=4)[1:4] / len(lengths)
    assert counts == pytest.approx(np.array([6, 3, 2]) / 11, abs=0.03)


def test_eight_in_ten_chosen_tokens_are_masked_one_is_random_and_one_stays() -> None:
    ordinary = np.arange(5, 10_000)
    tokens = np.full(50_000, 7)
    seen = corrupt(tokens, 4, ordinary, np.random.default_rng(3))
    assert np.mean(seen == 4) == pytest.approx(0.8, abs=0.01)
    assert np.mean(seen == tokens) == pytest.approx(0.1, abs=0.01)
    others = seen[(seen != 4) & (seen != 7)]
    assert len(others) / len(seen) == pytest.approx(0.1, abs=0.01)
    assert others.min() >= 5
    assert len(np.unique(others)) > 3000
