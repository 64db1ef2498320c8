"""Broken rules of the protocol are found: the simulation and its oracle can fail.

The seeds are among the first in which each mutant was found. A change of the protocol or of
the faults changes all courses; the command prints the seeds that take their place.
"""

import pytest

from tests.simulation.mutants import MUTANTS

FOUND = {
    "apply on proposal": 1,
    "coordinator's quorum of one": 1,
    "takeover at half": 1,
    "first ballot after a restart at half": 3,
    "accepted headers in calls are ignored": 1,
    "the lowest accepted header is proposed": 9,
    "coordinator forgets what it proposed": 18,
    "promises are forgotten": 34,
    "accept without parts": 1,
    "goodbye without content": 1,
    "goodbye counts despite a higher promise": 7,
    "any proposal is believed": 5,
    "contacts do not come with proposals": 3,
    "a restarted session votes": 1,
    "buffers are merged on retry": 1,
    "a committed buffer is offered again": 1,
    "the longest chain beats votes": 26,
    "chunks of two reducers are mixed": 5,
    "full weight is credited despite exclusions": 2,
    "the ledger is keyed by step and peer": 26,
    "headers that were missed are not asked for": 117,
    "snapshots are compared by digest": 50,
    "snapshots of other processors are not taken over": 30,
    "only newcomers rebase": 1,
    "any signature is believed": 11,
    "goodbyes of others are believed": 18,
    "votes are not signed": 11,
    "anybody resets": 11,
    "any log is believed": 8,
    "any weight is believed": 11,
    "snapshots are not named by headers": 54,
    "contacts are believed without proof": 11,
    "all rest, and for ever, if a plan says so": 19,
}


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_broken_rule_is_found(mutant) -> None:
    assert mutant.run(FOUND[mutant.name]).violation


def test_each_mutant_has_its_seed() -> None:
    assert FOUND.keys() == {mutant.name for mutant in MUTANTS}
