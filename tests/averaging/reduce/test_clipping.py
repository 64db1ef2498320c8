"""Which gradients are too large for their weight, and what they count with."""

import math

import numpy as np
import pytest

from averaging.reduce.clipping import FEWEST, LOUDEST, bounded, loudness, squared_norm

WEIGHTS = [8, 8, 16, 32, 64, 128, 256, 512]


def noisy(weights: list[int], size: float = 3.0) -> list[float]:
    """Squared norms of means that are nothing but noise."""
    return [size**2 / weight for weight in weights]


def test_honest_senders_are_as_loud_as_each_other_whatever_they_weigh() -> None:
    assert loudness(noisy(WEIGHTS), WEIGHTS) == pytest.approx([1.0] * len(WEIGHTS))


@pytest.mark.parametrize("times", [10.0, 100.0, 1e-3])
def test_a_gradient_that_is_multiplied_is_as_much_louder_and_the_others_stay_as_they_are(times: float) -> None:
    squares = noisy(WEIGHTS)
    squares[5] *= times**2
    expected = [1.0] * len(WEIGHTS)
    expected[5] = times
    assert loudness(squares, WEIGHTS) == pytest.approx(expected)


def test_a_claim_of_more_samples_is_as_loud_as_the_root_of_it() -> None:
    claimed = [*WEIGHTS[:-1], 8 * WEIGHTS[-1]]
    assert loudness(noisy(WEIGHTS), claimed)[-1] == pytest.approx(math.sqrt(8))


@pytest.mark.parametrize("square", [0.0, 1e-12, 1e12])
@pytest.mark.parametrize("others", [FEWEST - 1, 15])
def test_the_greatest_weight_does_not_say_what_is_usual(others: int, square: float) -> None:
    """Else one that claims most of all samples, and sends next to nothing, would make all others loud."""
    weights = [30] * others + [10**6]
    assert loudness([*noisy([30] * others), square], weights)[:-1] == pytest.approx([1.0] * others)


def test_few_senders_and_silent_ones_are_never_loud() -> None:
    weights = WEIGHTS[: FEWEST - 1]
    assert loudness([1e6, *noisy(weights[1:])], weights) == [1.0] * len(weights)
    assert loudness([1e6, *noisy(weights[1:]), 0.0, 0.0], [*weights, 5, 5]) == [1.0] * (len(weights) + 2)
    assert loudness([0.0] * 8, WEIGHTS) == [1.0] * 8


def test_a_loud_sender_counts_with_a_whole_part_of_its_weight() -> None:
    assert bounded(1000, LOUDEST) == 1000
    assert bounded(1000, 3 * LOUDEST) == 333
    assert bounded(1000, 1e9) == 0


@pytest.mark.parametrize("elements", [1, 2, 3, 127, 128, 4097])
def test_a_squared_norm_is_the_sum_of_squares(elements: int) -> None:
    values = np.random.default_rng(elements).standard_normal(elements).astype(np.float32)
    assert squared_norm(values) == pytest.approx(math.fsum(float(one) ** 2 for one in values), rel=1e-14)
