"""The selection for grids with more experts than a table holds: a beam search over prefixes of coordinates.

Source: Ryabinin and Gusev 2020, section 3.2 and appendix C. The directory says of a prefix, a few first coordinates,
which next ones lead to living experts. Dimension by dimension, a row keeps the prefixes with the highest sums of
scores. If all experts live and the beam is no narrower than the number of experts of a row, it finds the best ones
exactly: an expert whose prefix is not among the best has as many better ones with the same last coordinates.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

import torch
from torch import Tensor

from experts.grid import Uid
from experts.layer.gate import NONE, Choice

Prefix = tuple[int, ...]  # the first coordinates of some experts; () is that of all


class Prefixes(Protocol):
    """What the directory tells of prefixes."""

    def following(self, prefixes: Collection[Prefix]) -> Mapping[Prefix, Collection[int]]:
        """The next coordinates that lead to living experts; a prefix without any may be missing."""


class BeamSearch:
    """Chooses experts with one question to the directory per dimension, for all rows together."""

    def __init__(self, prefixes: Prefixes, beam: int):
        """Keep so many prefixes for each row, at least as many as a row has experts."""
        self._prefixes, self._beam = prefixes, beam

    def __call__(self, scores: Sequence[Tensor], count: int) -> Choice:
        """Choose at most `count` experts for each row; `living` holds what the search came across."""
        rows = len(scores[0])
        beams: list[dict[Prefix, float]] = [{(): 0.0} for _ in range(rows)]
        living = tuple(torch.zeros(one.shape[1], dtype=torch.bool) for one in scores)
        for dimension, of_dimension in enumerate(scores):
            last = dimension == len(scores) - 1
            asked = {prefix for beam in beams for prefix in beam}
            following = self._inside(self._prefixes.following(asked), of_dimension.shape[1])
            living[dimension][sorted({at for found in following.values() for at in found})] = True
            kept = max(self._beam, count) if not last else count
            beams = [_best(beam, following, row, kept) for beam, row in zip(beams, of_dimension.tolist(), strict=True)]
        return Choice(_coordinates(beams, count, len(scores)), living)

    @staticmethod
    def _inside(following: Mapping[Prefix, Collection[int]], length: int) -> dict[Prefix, list[int]]:
        """Without coordinates that the grid does not have: records are written by others."""
        return {prefix: [at for at in found if 0 <= at < length] for prefix, found in following.items()}


def _best(
    beam: Mapping[Prefix, float], following: Mapping[Prefix, Collection[int]], scores: Sequence[float], count: int
) -> dict[Prefix, float]:
    """The best prefixes that are one longer; equal ones by the order of counting."""
    longer = [
        (-score - scores[at], (*prefix, at)) for prefix, score in beam.items() for at in following.get(prefix, ())
    ]
    return {prefix: -score for score, prefix in sorted(longer)[:count]}


def _coordinates(beams: Sequence[Mapping[Uid, float]], count: int, dimensions: int) -> Tensor:
    most = min(count, max(map(len, beams), default=0))
    missing = (NONE,) * dimensions
    table = [[*beam, *[missing] * (most - len(beam))] for beam in beams]
    return torch.tensor(table, dtype=torch.int64).reshape(len(beams), most, dimensions)
