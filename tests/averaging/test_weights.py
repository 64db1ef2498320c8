"""How much a peer may weigh in a mean, and what is known of it afterwards."""

import math

import pytest

from trainer.averaging.witness import Weighed


def test_a_peer_weighs_what_it_has_computed_up_to_some_batches():
    weighed = Weighed(heaviest=100.0)
    assert [weighed.weigh(claim) for claim in (0.0, 1.0, 100.0, 101.0, 1e30)] == [0.0, 1.0, 100.0, 100.0, 100.0]


def test_a_peer_has_brought_what_its_lightest_part_weighs():
    weighed = Weighed(heaviest=100.0)
    assert weighed.weight is None
    for claim in (50.0, 3.0, 1e30):
        weighed.weigh(claim)
    assert weighed.weight == 3.0


@pytest.mark.parametrize("weight", [-1.0, math.inf, math.nan])
def test_what_is_no_weight_leaves_the_peer_out(weight: float):
    with pytest.raises(ValueError, match="no weight"):
        Weighed(heaviest=100.0).weigh(weight)
