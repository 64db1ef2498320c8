"""Who reduces what: equal parts, or what the process plans."""

import pytest

from averaging.log.header import Ballot, Part, exclusions_of
from averaging.protocol.messages import Assignment, Bandwidth, Call
from averaging.protocol.rounds.parts import (
    MOST_PARTS,
    MemberProfile,
    covers,
    equal_parts,
    in_turns,
    one_sided,
    reached_by_all,
)
from tests.averaging.log.headers import header, member

LINES = [MemberProfile(f"p{index}", True, index != 1, Bandwidth(10.0 * index, 100.0)) for index in range(7)]


@pytest.mark.parametrize("chunks", [1, 3, 10])
def test_reachable_members_get_equal_runs_of_chunks(chunks: int) -> None:
    parts = equal_parts(chunks, LINES).parts
    assert [part.reducer for part in parts] == ["p0", "p2", "p3", "p4"][:chunks]
    assert len(parts) == min(chunks, MOST_PARTS)
    assert max(part.count for part in parts) - min(part.count for part in parts) <= 1
    assert covers(parts, chunks)


@pytest.mark.parametrize(
    "parts",
    [
        [],
        [Assignment(0, 2, "p0", 0)],
        [Assignment(1, 2, "p0", 0)],
        [Assignment(0, 2, "p0", 0), Assignment(1, 2, "p2", 0)],
        [Assignment(0, 0, "p0", 0), Assignment(0, 3, "p2", 0)],
        [Assignment(0, 4, "p0", 0)],
    ],
)
def test_parts_of_a_plan_are_all_chunks_once_and_in_their_order(parts: list[Assignment]) -> None:
    assert not covers(parts, 3)


MEMBERS = (member("a", 8), member("b", 8), member("c", 8), member("d", 1), member("c too", 8, user="c"))


@pytest.mark.parametrize(
    ("parts", "missing", "blamed"),
    [
        ({"a": 2, "b": 2}, {}, []),
        ({"a": 2, "b": 2}, {"b": {0, 1}, "c": {0, 1}, "c too": {0, 1}}, ["a"]),
        ({"a": 2, "b": 2}, {"c": {0, 1}, "c too": {0, 1}}, []),  # one user, who may have sent nothing
        ({"a": 2, "b": 2}, {"b": {0, 1}}, []),  # one may have no way to the other
        ({"a": 2, "b": 2}, {"c": {0, 1}, "d": {0, 1}}, []),  # 9 of 25
        ({"a": 2, "b": 2}, {"b": {0, 1}, "c": {0, 1}}, ["a"]),  # 16 of 25
        ({"a": 2, "b": 2}, {"b": {0, 1}, "c": {0}, "d": {0, 1}}, []),  # of c half of the part: 9 of 25
        ({"a": 2, "b": 2, "c": 2}, {"c": {0, 1, 2, 3}, "d": {0, 1, 2, 3}}, []),  # those two sent nothing to either
        ({"a": 4}, {"b": {0, 1, 2, 3}, "c": {0, 1, 2, 3}}, []),  # nobody else shows that pieces came
    ],
)
def test_a_reducer_is_blamed_for_missing_what_others_have_of_most_senders(
    parts: dict[str, int], missing: dict[str, set[int]], blamed: list[str]
) -> None:
    reduced = tuple(Part(reducer, ("mean",) * count) for reducer, count in parts.items())
    assert one_sided(header(members=MEMBERS, parts=reduced, exclusions=exclusions_of(missing))) == blamed


def calls(**connected: str) -> dict[str, Call]:
    """Of members, each with the first letters of those that it is connected to."""
    return {one: Call("", Ballot(1, ""), (), None, connected=tuple(others)) for one, others in connected.items()}


def test_members_take_turns() -> None:
    members = calls(a="", b="", c="", d="", e="", f="")
    orders = [[one for one, _ in in_turns(members, f"header {step}")] for step in range(60)]
    assert all(sorted(order) == sorted(members) for order in orders)
    for one in members:
        assert 20 < sum(one in order[:MOST_PARTS] for order in orders) < 60
    assert in_turns(members, "header 7") == in_turns(dict(reversed(members.items())), "header 7")


def test_members_that_accept_connections_are_reached_by_all() -> None:
    assert reached_by_all(calls(a="", b="", c=""), {"a", "b"}) == {"a", "b"}


def test_one_behind_a_router_is_reached_if_it_is_connected_to_everybody() -> None:
    assert reached_by_all(calls(a="", b="ac", c="ab"), {"a"}) == {"a", "b", "c"}
    assert reached_by_all(calls(a="", b="ac", c="b"), {"a"}) == {"a", "b"}, "c may have no way to a"


def test_the_word_of_one_of_the_two_is_enough() -> None:
    assert reached_by_all(calls(a="", b="a", c="ab"), {"a"}) == {"a", "b", "c"}


def test_one_without_a_way_to_some_keeps_those_from_reducing_and_no_others() -> None:
    everybody = calls(a="", b="acd", c="abd", d="abc", e="ad")
    assert reached_by_all(everybody, {"a"}) == {"a", "d"}
    del everybody["e"]
    assert reached_by_all(everybody, {"a"}) == {"a", "b", "c", "d"}


def test_whom_else_it_is_connected_to_does_not_matter() -> None:
    assert reached_by_all(calls(a="", b="axyz"), {"a"}) == {"a", "b"}
