"""Parts of a round, from what members told of their lines."""

import random

import pytest

from trainer.averaging.planning.plan import NobodyReachable
from trainer.averaging.sharing import Sharing, chunk_bytes, shared
from trainer.averaging.told import Told

MEGABIT = 125_000.0  # bytes
ELEMENTS = 2_000_000
WIRE = 4e6  # bytes of the vector


def group(*uploads: float, clients: int = 0, download: float = 0.0, elements: int = ELEMENTS) -> Sharing:
    """Who uploads so many Mbit/s each, the last `clients` in client mode."""
    told = [Told(3, b"", False, 0, upload * MEGABIT, download * MEGABIT) for upload in uploads]
    modes = [number >= len(uploads) - clients for number in range(len(uploads))]
    return shared(told, modes, elements, 2.0 * elements)


def test_parts_are_equal_while_most_lines_are_not_known():
    assert group(0, 0, 20, 2) == Sharing((500_000,) * 4, None)
    assert group(0, 20, 2, 2).seconds is not None


def test_lines_that_were_measured_a_bit_differently_get_equal_parts():
    random.seed(0)
    for _ in range(50):
        uploads = [5.0 * random.uniform(0.92, 1.08) for _ in range(8)]
        assert group(*uploads).parts == (250_000,) * 8


def test_a_fat_line_averages_more_than_a_thin_one():
    fat, middle, thin, thinner = group(20, 10, 5, 2).parts
    assert fat > middle > thin == thinner == 0
    assert fat + middle == ELEMENTS


def test_a_plan_that_saves_less_than_half_a_second_is_not_worth_it():
    assert group(20, 2, 2, elements=40).parts == (14, 13, 13)


def test_who_accepts_no_connections_averages_nothing():
    assert group(2, 2, 20, 20, clients=2).parts == (1_000_000, 1_000_000, 0, 0)
    with pytest.raises(NobodyReachable):
        group(2, 2, clients=2)


def test_a_newcomer_is_taken_for_a_usual_peer():
    assert group(20, 10, 10, 2, 0) == group(20, 10, 10, 2, 10)


def test_a_line_that_may_carry_little_down_averages_little():
    told = [Told(3, b"", False, 0, 20 * MEGABIT, down * MEGABIT) for down in (20, 20, 20, 4)]
    *parts, limited = shared(told, [False] * 4, ELEMENTS, WIRE).parts
    assert limited < min(parts)


def test_the_coordinator_sees_what_the_others_bring():
    told = [Told(3, b"", number == 3, 0, upload * MEGABIT) for number, upload in enumerate((20, 20, 10, 2))]
    parts = shared(told, [False] * 4, ELEMENTS, WIRE).parts
    assert parts[3] == ELEMENTS // 64
    assert sum(parts) == ELEMENTS


def test_chunks_are_small_beside_the_vector_and_large_beside_their_header():
    assert chunk_bytes(1e3) == chunk_bytes(4e6) == 2**15
    assert chunk_bytes(12.8e6) == 50_000
    assert chunk_bytes(1e9) == 2**17
