"""Headers have one encoding, and say which of two chains wins."""

import itertools

import msgpack
import pytest
from msgspec.structs import replace

from averaging.log.header import (
    FORMAT,
    MOST_RESETS,
    Ballot,
    Exclusion,
    Head,
    Header,
    HeaderKind,
    Part,
    Reset,
    SnapshotName,
    extends,
    shared_step,
    supersedes,
)
from averaging.log.packing import pack, unpack
from tests.averaging.log.headers import FIRST, head, header, member

FULL = header(
    7,
    "before",
    members=(member("a", 5), member("b", 0, reachable=False)),
    parts=(Part("a", ("x", "y"), (("b", 4.5),)), Part("b", ("z",))),
    exclusions=(Exclusion("b", (2,)),),
    voters=("a", "b"),
    tie_breaker="c",
    snapshot=SnapshotName(5, "state"),
    resets=(Reset(3, Ballot(9, "c")),),
)


@pytest.mark.parametrize("original", [FULL, header(), header(kind=HeaderKind.ROLLBACK, snapshot=SnapshotName(1, "s"))])
def test_a_decoded_header_is_the_same_one(original: Header) -> None:
    decoded = unpack(Header, original.encoded)
    assert decoded == original
    assert (decoded.encoded, decoded.digest) == (original.encoded, original.digest)


def test_every_field_is_in_the_digest() -> None:
    changed = [
        replace(FULL, run="other"),
        replace(FULL, step=8),
        replace(FULL, kind=HeaderKind.RESET),
        replace(FULL, previous="another"),
        replace(FULL, ballot=Ballot(1, "c")),
        replace(FULL, members=FULL.members[:1]),
        replace(FULL, parts=FULL.parts[:1]),
        replace(FULL, exclusions=()),
        replace(FULL, voters=("a",)),
        replace(FULL, tie_breaker="d"),
        replace(FULL, snapshot=None),
        replace(FULL, resets=()),
    ]
    assert len({FULL.digest, *(one.digest for one in changed)}) == len(changed) + 1


@pytest.mark.parametrize(
    "encoded",
    [
        b"",
        b"\xc1",
        FULL.encoded[:-1],
        FULL.encoded + b"\x00",
        msgpack.packb(3),
        msgpack.packb([]),
        msgpack.packb({"run": "run"}),
        msgpack.packb([FORMAT - 1, *msgpack.unpackb(FULL.encoded)[1:]]),
        msgpack.packb([FORMAT, "run", 1, "no kind", *msgpack.unpackb(FULL.encoded)[4:]]),
        msgpack.packb([FORMAT, "run", 1, ["update"], *msgpack.unpackb(FULL.encoded)[4:]]),
        b"\x91" * 5000,
    ],
)
def test_what_is_no_header_is_refused(encoded: bytes) -> None:
    with pytest.raises(ValueError):
        unpack(Header, encoded)


@pytest.mark.parametrize(
    ("theirs", "ours", "wins"),
    [
        (head(5), head(4), True),
        (head(4), head(5), False),
        (head(5), head(5), False),
        # they were reset at 4, after 3
        (head(9, (4, 1)), head(3), True),
        (head(9, (4, 1)), head(4), False),  # our step 4 was voted for
        (head(4), head(9, (4, 1)), True),
        (head(3), head(9, (4, 1)), False),
        # both were reset: the later reset follows a voted header where the other one is
        (head(6, (6, 2)), head(9, (4, 1)), True),
        (head(9, (4, 1)), head(6, (6, 2)), False),
        # at the same step the higher ballot wins
        (head(4, (4, 2)), head(9, (4, 1)), True),
        (head(9, (4, 1)), head(4, (4, 2)), False),
        # what was reset before they parted says nothing
        (head(8, (2, 1)), head(7, (2, 1)), True),
        (head(9, (2, 1), (6, 2)), head(6, (2, 1)), False),
        (head(6, (2, 1)), head(9, (2, 1), (6, 2)), True),
    ],
)
def test_votes_beat_resets_and_then_the_longer_chain_wins(theirs: object, ours: object, wins: bool) -> None:
    assert supersedes(theirs, ours) is wins  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("theirs", "ours", "contains"),
    [
        (head(5), head(4), True),
        (head(4), head(5), False),
        (head(9, (4, 1)), head(3), True),
        (head(9, (4, 1)), head(4), False),  # our step 4 is not on a chain that was reset there
        (head(9), head(5, (4, 1)), False),
        (head(9, (4, 2)), head(5, (4, 1)), False),
        (head(9, (4, 1), (8, 3)), head(7, (4, 1)), True),
    ],
)
def test_a_chain_extends_another_that_it_contains(theirs: object, ours: object, contains: bool) -> None:
    assert extends(theirs, ours) is contains  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("one", "other", "step"),
    [
        (head(5), head(4), 4),
        (head(9, (4, 1)), head(3), 3),
        (head(9, (4, 1)), head(7), 3),
        (head(9, (4, 1)), head(7, (4, 2)), 3),
        (head(9, (4, 1)), head(7, (6, 2)), 3),
        (head(9, (4, 1), (8, 3)), head(9, (4, 1)), 7),
        (head(9, (4, 1)), head(9, (4, 1)), 9),
    ],
)
def test_chains_are_the_same_up_to_the_first_reset_that_one_of_them_lacks(
    one: object, other: object, step: int
) -> None:
    assert shared_step(one, other) == shared_step(other, one) == step  # type: ignore[arg-type]


def test_heads_of_a_chain_that_was_reset_more_often_than_they_tell_are_in_the_order_of_their_steps() -> None:
    resets = tuple(Reset(step, Ballot(step, "coordinator")) for step in range(2, 8 * MOST_RESETS, 3))
    told = [(step, tuple(one for one in resets if one.step <= step)) for step in range(8 * MOST_RESETS)]
    heads = [Head(step, f"digest {step}", known[-MOST_RESETS:]) for step, known in told]
    for earlier, later in itertools.combinations(heads[::5], 2):
        assert (supersedes(later, earlier), supersedes(earlier, later)) == (True, False)
        assert extends(later, earlier)
        assert shared_step(later, earlier) == earlier.step


@pytest.mark.parametrize("steps", [[5, 4], [4, 4], list(range(MOST_RESETS + 1))])
def test_a_head_with_resets_that_no_chain_has_is_refused(steps: list[int]) -> None:
    resets = [[step, [1, "coordinator"]] for step in steps]
    with pytest.raises(ValueError, match="resets"):
        unpack(Head, pack([5, "digest", resets]))
    fields = msgpack.unpackb(FULL.encoded)
    own = fields.index([[3, [9, "c"]]])
    with pytest.raises(ValueError, match="resets"):
        unpack(Header, pack([*fields[:own], resets, *fields[own + 1 :]]))


def test_ballots_are_in_the_order_of_their_numbers_and_then_of_their_conveners() -> None:
    assert FIRST < Ballot(0, "d") < Ballot(1, "a")
