"""Which gradients are too large for their weight, and what they count with."""

import math

import numpy as np
import pytest

from averaging.log.shares import LOUDEST
from averaging.reduce import clipping
from averaging.reduce.clipping import FEWEST, MOST, bounded, squared_norm

WEIGHTS = [8, 8, 16, 32, 64, 128, 256, 512]


def loudness(squared_norms: list[float], weights: list[int], users: list[str] | None = None) -> list[float]:
    """Of gradients, each by default of a user of its own."""
    return clipping.loudness(squared_norms, weights, users or [str(number) for number in range(len(weights))])


def noisy(weights: list[int], size: float = 3.0) -> list[float]:
    """Squared norms of means that are nothing but noise."""
    return [size**2 / weight for weight in weights]


def test_noise_is_as_loud_as_the_weight_explains_and_a_heavy_sender_needs_not_be_quieter_than_others() -> None:
    found = loudness(noisy(WEIGHTS), WEIGHTS)
    assert found[:6] == pytest.approx([1.0] * 6)
    assert max(found[6:]) < 1.0  # of 256 and 512 samples, where half of the weight has 128 or less


def test_where_gradients_are_all_slope_the_heaviest_is_as_loud_as_the_usual_one() -> None:
    found = loudness([9.0] * len(WEIGHTS), WEIGHTS)
    assert max(found) == found[-1] == 1.0
    assert found[0] == pytest.approx(1 / 4)  # noise would be so much larger


@pytest.mark.parametrize("times", [10.0, 100.0, 1e-3])
def test_a_gradient_that_is_multiplied_is_as_much_louder_and_the_others_stay_as_they_are(times: float) -> None:
    squares = noisy(WEIGHTS)
    expected = loudness(squares, WEIGHTS)
    squares[3] *= times**2
    expected[3] = times
    assert loudness(squares, WEIGHTS) == pytest.approx(expected, rel=0.5)
    assert loudness(squares, WEIGHTS)[3] == pytest.approx(times, rel=0.2)


def test_a_claim_of_more_samples_shows_as_the_root_of_it_up_to_the_usual_weight() -> None:
    weights = [64] * 10
    assert loudness([9 / 8, *noisy(weights[1:])], weights)[0] == pytest.approx(math.sqrt(8))
    assert loudness(noisy(weights), [8 * 64, *weights[1:]])[0] == pytest.approx(1.0)  # it is as loud as the others


@pytest.mark.parametrize("square", [0.0, 1e-12, 1e12])
@pytest.mark.parametrize("others", [FEWEST - 1, 15])
def test_the_greatest_weight_does_not_say_what_is_usual(others: int, square: float) -> None:
    """Else one that claims most of all samples, and sends next to nothing, would make all others loud."""
    weights = [30] * others + [10**6]
    assert loudness([*noisy([30] * others), square], weights)[:-1] == pytest.approx([1.0] * others)


def test_neither_claims_nor_devices_of_one_user_say_what_is_usual() -> None:
    honest, squares = [1000] * 5, noisy([1000] * 5)
    users = ["ann", "bo", "cy", "di", "ed", "eve", "eve"]
    assert loudness([*squares, 1e-12, 1e-12], [*honest, 3000, 3000], users)[:5] == pytest.approx([1.0] * 5)
    few = [10, 10, 10**4, 10**4]
    assert max(loudness([*noisy(few), 1e-12], [*few, 10**6])[:4]) < LOUDEST
    assert loudness([1e6, *squares[1:]], honest, ["ann", "ann", "bo", "cy", "di"]) == [1.0] * 5, "four users"


def test_few_senders_and_silent_ones_are_never_loud() -> None:
    weights = WEIGHTS[: FEWEST - 1]
    assert loudness([1e6, *noisy(weights[1:])], weights) == [1.0] * len(weights)
    assert loudness([1e6, *noisy(weights[1:]), 0.0, 0.0], [*weights, 5, 5]) == [1.0] * (len(weights) + 2)
    assert loudness([0.0] * 8, WEIGHTS) == [1.0] * 8


def test_how_loud_a_sender_is_fits_into_a_message() -> None:
    assert loudness([1e-30] * 6 + [1e30], [5] * 7)[-1] == MOST


def test_a_loud_sender_counts_with_a_whole_part_of_its_weight_that_is_smaller_the_louder_it_is() -> None:
    assert bounded(1000, LOUDEST) == 1000
    assert bounded(1000, 3 * LOUDEST) == 111
    assert bounded(1000, 1e6) == 0


@pytest.mark.parametrize("elements", [1, 2, 3, 127, 128, 4097])
def test_a_squared_norm_is_the_sum_of_squares(elements: int) -> None:
    values = np.random.default_rng(elements).standard_normal(elements).astype(np.float32)
    assert squared_norm(values) == pytest.approx(math.fsum(float(one) ** 2 for one in values), rel=1e-14)
