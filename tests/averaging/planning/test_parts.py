"""Whole parts: they add up, stay near their shares, and do not depend on the last bits of a share."""

import numpy as np
import pytest

from trainer.averaging.planning.parts import part_sizes


@pytest.mark.parametrize("seed", range(30))
def test_parts_add_up_and_are_within_an_element_of_their_shares(seed: int):
    rng = np.random.default_rng(seed)
    shares = rng.random(int(rng.integers(1, 40)))
    length = int(rng.integers(1, 10**8))
    sizes = part_sizes(shares.tolist(), length)
    assert sum(sizes) == length
    exact = shares / shares.sum() * length
    assert np.abs(np.array(sizes) - exact).max() < 1 + length * len(shares) * 1e-9 / shares.sum()


def test_what_differs_in_its_last_bits_is_the_same_part():
    shares = [0.1, 0.2, 0.3, 0.4]
    other = [float(np.nextafter(share, 1.0)) for share in shares]
    assert part_sizes(shares, 17_847_474) == part_sizes(other, 17_847_474)


def test_of_equal_remainders_the_first_peers_get_the_elements():
    assert part_sizes([1.0, 1.0, 1.0], 11) == (4, 4, 3)


def test_parts_that_are_not_worth_it_go_to_the_others():
    assert part_sizes([0.005, 0.495, 0.5], 1000, smallest=10) == (0, 497, 503)
    assert part_sizes([0.5, 0.5], 10, smallest=100) == (5, 5)  # unless nobody would get any


def test_somebody_has_to_average():
    with pytest.raises(ValueError, match="nobody averages"):
        part_sizes([0.0, 0.0], 10)
