"""Who decides about the next header, and how many of them are enough."""

import itertools

import pytest

from averaging.log.header import Ballot, Certificate, Entry, Farewell, Header, HeaderKind
from averaging.protocol.commit.quorum import (
    MOST_VOTERS,
    WINDOW,
    choose_voters,
    counted_goodbyes,
    has_quorum,
    highest_accepted,
    is_committed,
)
from averaging.protocol.messages import Accepted
from tests.averaging.believing import Believing, certified
from tests.averaging.log.headers import header, member

COORDINATOR = "coordinator.0"


def decision(voters: int) -> Header:
    """A header whose successor so many voters decide about."""
    return header(voters=tuple("abcdefghi"[:voters]), tie_breaker=COORDINATOR)


@pytest.mark.parametrize(
    ("voters", "coordinator", "other"), [(0, 0, 1), (1, 1, 1), (2, 1, 2), (3, 2, 2), (4, 2, 3), (9, 5, 5)]
)
def test_the_coordinator_needs_half_and_everybody_else_more(voters: int, coordinator: int, other: int) -> None:
    previous = decision(voters)
    for count in range(voters + 1):
        votes = previous.voters[:count]
        assert has_quorum(previous, COORDINATOR, votes, ()) is (count >= coordinator)
        assert has_quorum(previous, "coordinator.1", votes, ()) is (count >= other)  # restarted: another session


def test_votes_of_others_and_of_voters_that_have_left_do_not_count() -> None:
    previous = decision(4)
    assert not has_quorum(previous, "a", ("a", "b", "x", "y"), ())
    assert has_quorum(previous, "a", ("a", "b"), ("d",))
    assert not has_quorum(previous, "a", ("a", "d"), ("d",))


@pytest.mark.parametrize("count", range(1, 6))
def test_two_quorums_meet(count: int) -> None:
    """In a voter, or in the memory of the coordinator, or a goodbye tells one of them what the other has accepted."""
    previous = decision(count)
    subsets = [set(one) for size in range(count + 1) for one in itertools.combinations(previous.voters, size)]
    for left, gone in itertools.product(subsets, subsets):
        for votes, promises in itertools.product(subsets, subsets):
            if left & promises:
                continue  # these promised before they left, so the lower ballot does not count their goodbyes
            for first, second in (("a", "b"), (COORDINATOR, "b"), ("a", COORDINATOR)):
                if has_quorum(previous, first, votes, left) and has_quorum(previous, second, promises, gone):
                    assert votes & (promises | gone)


def test_an_entry_is_committed_by_votes_on_the_header_before_it() -> None:
    previous = decision(3)
    follows = header(2, previous.digest, ballot=Ballot(1, "a"))
    assert is_committed(previous, Entry(follows, certified(Ballot(1, "a"), ("a", "b"))), Believing())
    assert not is_committed(previous, Entry(follows, certified(Ballot(1, "a"), ("a",))), Believing())
    assert not is_committed(header(), Entry(follows, certified(Ballot(1, "a"), ("a", "b"))), Believing())
    late = header(3, previous.digest, ballot=Ballot(1, "a"))
    assert not is_committed(previous, Entry(late, certified(Ballot(1, "a"), ("a", "b"))), Believing())
    reset = header(2, previous.digest, kind=HeaderKind.RESET)
    assert is_committed(previous, Entry(reset, Certificate(Ballot(1, COORDINATOR))), Believing())


def test_a_goodbye_counts_unless_it_has_promised_a_higher_ballot_in_this_decision() -> None:
    previous = decision(4)
    said = {
        "a": Farewell("a", previous.digest, 1, None),
        "b": Farewell("b", previous.digest, 1, Ballot(5, "x")),
        "c": Farewell("c", previous.digest, 1, Ballot(6, "x")),
        "d": Farewell("d", "an older decision", 0, Ballot(9, "x")),
        "x": Farewell("x", previous.digest, 1, None),  # no voter
    }
    assert counted_goodbyes(previous, Ballot(5, "x"), said).keys() == {"a", "b", "d"}
    assert counted_goodbyes(previous, Ballot(6, "x"), said).keys() == {"a", "b", "c", "d"}


def test_a_goodbye_from_a_later_decision_does_not_count() -> None:
    """It says nothing about what its session has accepted in this one."""
    previous = decision(3)
    assert not counted_goodbyes(previous, Ballot(5, "x"), {"a": Farewell("a", "a later one", 2, None)})


def test_the_header_of_the_highest_ballot_is_proposed_again() -> None:
    low, high = header(1), header(2)
    known = [None, Accepted(Ballot(2, "a"), low), Accepted(Ballot(2, "b"), high), Accepted(Ballot(1, "z"), low)]
    assert highest_accepted(known) is high
    assert highest_accepted([None]) is None


def test_voters_are_reachable_members_with_most_credit_one_of_each_user() -> None:
    members = [
        member("hidden", 90, reachable=False),
        member("new", 1),
        member("old", 2),
        member("twin1", 3, user="twin"),
        member("twin2", 4, user="twin"),
        member("idle", 0),
    ]
    recent = [header(members=(member("old", 40), member("gone", 99)))]
    assert choose_voters(members, recent) == ("hidden", "new", "old", "twin2")


def test_there_are_at_most_nine_voters_and_hidden_ones_come_last() -> None:
    members = [member(f"open{index}", 1) for index in range(6)]
    members += [member(f"hidden{index}", 10 + index, reachable=False) for index in range(6)]
    chosen = choose_voters(members, [])
    assert len(chosen) == MOST_VOTERS
    assert {f"open{index}" for index in range(6)} < set(chosen)
    assert {"hidden3", "hidden4", "hidden5"} < set(chosen)


def test_credit_of_older_headers_does_not_count() -> None:
    members = [member(f"m{index}", 2) for index in range(MOST_VOTERS)] + [member("past", 1)]
    old = header(members=(member("past", 1000),))
    recent = [header(members=())] * WINDOW
    assert "past" in choose_voters(members, [old, *recent[1:]])
    assert "past" not in choose_voters(members, [old, *recent])
