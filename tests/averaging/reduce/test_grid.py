"""Chunks cover the vector, and all peers cut it in the same way."""

from itertools import pairwise

import pytest

from averaging.reduce.gradient_codec import BLOCK
from averaging.reduce.grid import FEWEST_CHUNKS, LARGEST_CHUNK, MOST_CHUNKS, SMALLEST_CHUNK, Grid

SMALL = (1, 255, 2**12, 2**12 + 1, 65_536, 100_000, 1_467_522, 2**21 - 1, 2**21)
SIZES = (*SMALL, 17_847_474, 125_000_001, 2**27, 2**27 + 1, 235_000_000, 2**30)


@pytest.mark.parametrize("elements", SIZES)
def test_chunks_cover_the_vector_one_after_the_other(elements: int):
    grid = Grid(elements)
    slices = [grid.slice(chunk) for chunk in range(grid.count)]
    assert slices[0].start == 0 and slices[-1].stop == elements
    assert all(one.stop == following.start for one, following in pairwise(slices))
    assert all(grid.size(chunk) == grid.chunk_elements for chunk in range(grid.count - 1))
    assert 0 < grid.size(grid.count - 1) <= grid.chunk_elements


@pytest.mark.parametrize("elements", SIZES)
def test_chunks_are_whole_blocks_of_a_size_that_suits_the_vector(elements: int):
    grid = Grid(elements)
    assert grid.chunk_elements % BLOCK == 0
    assert grid.chunk_elements >= SMALLEST_CHUNK
    assert grid.count <= MOST_CHUNKS
    if elements >= FEWEST_CHUNKS * SMALLEST_CHUNK:
        assert grid.count >= FEWEST_CHUNKS
    if elements >= FEWEST_CHUNKS * LARGEST_CHUNK:
        assert grid.chunk_elements >= LARGEST_CHUNK
    if elements <= MOST_CHUNKS * LARGEST_CHUNK:
        assert grid.chunk_elements <= LARGEST_CHUNK
    else:
        assert 2 * grid.count >= MOST_CHUNKS, "no larger than need be"


@pytest.mark.parametrize("chunk", [-1, 13, 10**9])
def test_there_are_no_other_chunks(chunk: int):
    with pytest.raises(ValueError, match=f"chunk {chunk} is not on the grid of 13"):
        Grid(100_000).slice(chunk)
