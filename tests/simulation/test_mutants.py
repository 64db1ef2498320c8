"""Broken rules of the protocol are found: the simulation and its oracle can fail.

A change of the protocol or of the faults changes all courses; `python -m benchmarks.simulation` prints the seeds that
take the place of those in which mutants are not found any more.
"""

import pytest

from tests.simulation.mutants import MUTANTS


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_broken_rule_is_found(mutant) -> None:
    assert mutant.run(mutant.seed).violation
