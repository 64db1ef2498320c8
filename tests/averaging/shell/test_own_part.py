"""Which chunks of its own part a coordinator compares."""

from functools import partial

import pytest

from averaging.log.header import Ballot, Part
from averaging.reduce.agreement import Agreement
from averaging.shell.audit import COMPARED, OwnPart
from tests.averaging.log.headers import header

CHUNKS = 12
BALLOT = Ballot(3, "coordinator.0")
MEANS = tuple(f"mean of {chunk}" for chunk in range(CHUNKS))
HEADER = header(parts=(Part("coordinator.0", MEANS),))


def said(chunk: int) -> tuple[Agreement, ...]:
    return (Agreement(str(chunk), 1.0, 1.0),)


def averaged(own: OwnPart, chunks: range, ballot: Ballot = BALLOT) -> None:
    for chunk in chunks:
        own.averaged(ballot, chunk, MEANS[chunk], partial(said, chunk))


def compared(own: OwnPart) -> list[int]:
    return [int(compare()[0].session) for compare in own.of(HEADER)]


@pytest.mark.parametrize("count", [0, 1, COMPARED, COMPARED + 1, CHUNKS])
def test_a_few_are_drawn_and_each_may_be(count: int) -> None:
    seen = set()
    for _ in range(300):
        own = OwnPart()
        averaged(own, range(count))
        drawn = compared(own)
        assert len(set(drawn)) == len(drawn) == min(count, COMPARED)
        seen |= set(drawn)
        assert not compared(own), "they are looked at once"
    assert seen == set(range(count))


def test_means_that_are_not_in_the_header_are_not_looked_at() -> None:
    own = OwnPart()
    own.averaged(BALLOT, 0, "of an attempt that was too late", lambda: ())
    averaged(own, range(1, 3))
    assert sorted(compared(own)) == [1, 2]


def test_those_of_a_ballot_that_has_failed_are_forgotten() -> None:
    own = OwnPart()
    averaged(own, range(3), Ballot(2, "asha.0"))
    averaged(own, range(5, 7))
    assert sorted(compared(own)) == [5, 6]
