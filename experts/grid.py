"""Where an expert stands in the grid: one coordinate per dimension, as in section 3.1 of the paper."""

import itertools
import math
from collections.abc import Iterator

Uid = tuple[int, ...]  # of one expert: its coordinates
Grid = tuple[int, ...]  # the size of each dimension


def all_uids(grid: Grid) -> Iterator[Uid]:
    """Every expert that the grid has room for, in the order of counting."""
    return itertools.product(*map(range, grid))


def size(grid: Grid) -> int:
    """How many experts the grid has room for."""
    return math.prod(grid)


def is_inside(uid: Uid, grid: Grid) -> bool:
    """Whether the grid has such an expert."""
    return len(uid) == len(grid) and all(0 <= at < length for at, length in zip(uid, grid, strict=True))
