"""For how long a reducer waits for the pieces of a member."""

import math

import pytest
from msgspec.structs import replace

from averaging.log.header import Ballot
from averaging.protocol.actions import Action, Average
from averaging.protocol.messages import Assignment, Contact, Message, Piece, Plan, Reduced, Reducing
from averaging.protocol.rounds.reducing import Reduction
from averaging.protocol.rounds.reliability import MOST, Patience, explained
from averaging.protocol.session import Session
from averaging.protocol.settings import Settings
from tests.averaging.believing import Believing
from tests.averaging.log.headers import member

SETTINGS = Settings("run", target_samples=2, chunks=2, snapshot_every=5)
TIMEOUTS = SETTINGS.timeouts
BALLOT = Ballot(1, "convener")
PLAN = Plan("", BALLOT, (member("me"), member("thin")), (Assignment(0, 2, "me", 0),))


def reduction_of(sent: list[Message], done: list[Action]) -> Reduction:
    """It has just heard the plan."""
    session = Session(Contact("me", "me", reachable=True), SETTINGS, Believing())
    session.send = lambda to, message: sent.append(message)  # type: ignore[method-assign]
    session.act = done.append  # type: ignore[method-assign, assignment]
    reduction = Reduction(session, Patience())
    reduction.begin(PLAN, 0.0)
    return reduction


def senders_of(actions: list[Action]) -> dict[int, tuple[str, ...]]:
    """By chunk."""
    return {one.chunk: one.senders for one in actions if isinstance(one, Average)}


def test_a_sender_of_which_nothing_comes_is_left_out_soon() -> None:
    done: list[Action] = []
    reduction = reduction_of([], done)
    reduction.tick(TIMEOUTS.pieces - 0.1)
    assert not done
    reduction.tick(TIMEOUTS.pieces)
    assert senders_of(done) == {0: ("me",), 1: ("me",)}


def test_a_sender_whose_first_piece_is_on_its_way_is_waited_for_and_the_convener_hears_of_it() -> None:
    sent: list[Message] = []
    done: list[Action] = []
    reduction = reduction_of(sent, done)
    for second in range(1, 30):
        reduction.moving("thin", float(second))
        reduction.tick(float(second))
    assert not done
    assert sum(isinstance(one, Reducing) for one in sent) == 29
    reduction.piece("thin", Piece(BALLOT, 0, 0), 29.5)
    assert senders_of(done) == {0: ("me", "thin")}
    reduction.tick(29.5 + TIMEOUTS.pieces)
    assert senders_of(done) == {0: ("me", "thin"), 1: ("me",)}


def test_bytes_that_never_become_pieces_hold_a_round_up_for_so_long_and_no_longer() -> None:
    sent: list[Message] = []
    done: list[Action] = []
    reduction = reduction_of(sent, done)
    for second in range(1, int(TIMEOUTS.sending)):
        reduction.moving("thin", float(second))
        reduction.moving("stranger", float(second))
        reduction.tick(float(second))
    assert not done
    reduction.moving("thin", TIMEOUTS.sending)
    reduction.tick(TIMEOUTS.sending)
    assert senders_of(done) == {0: ("me",), 1: ("me",)}
    said = len(sent)
    reduction.moving("thin", TIMEOUTS.sending + 2.0)
    assert len(sent) == said, "the convener is told of pieces that nobody waits for"


def test_a_mean_is_not_needed_any_more_by_those_that_take_part_in_the_next_round() -> None:
    reduction = reduction_of([], [])
    reduction.averaged(Average(PLAN, 0, 0, ()), "mean")
    assert not reduction.has_mean("thin", "mean")
    reduction.end(BALLOT, 1.0)
    assert not reduction.has_mean("thin", "mean")  # it may be behind
    following = replace(PLAN, ballot=Ballot(2, "convener"))
    reduction.begin(following, 1.0)
    assert reduction.has_mean("thin", "mean")
    assert not reduction.has_mean("absent", "mean")
    assert not reduction.has_mean("thin", "another")
    reduction.averaged(Average(following, 0, 0, ()), "newer")
    assert not reduction.has_mean("thin", "newer")
    reduction.averaged(Average(following, 1, 0, ()), "mean")
    assert not reduction.has_mean("thin", "mean")  # it is one of this round, too


@pytest.mark.parametrize(
    ("found", "told"),
    [
        ([(("eve", 9.0), ("ann", 3.0)), (("eve", 5.0),), (("eve", 7.0),)], math.sqrt((81 + 25 + 49) / 3)),
        ([(("eve", 1e4),), (), ()], 1e4 / math.sqrt(3)),  # being loud in some chunks alone hides nothing
    ],
)
def test_the_convener_hears_of_senders_that_are_loud_in_a_part(
    found: list[tuple[tuple[str, float], ...]], told: float
) -> None:
    sent: list[Message] = []
    reduction = reduction_of(sent, [])
    plan = replace(PLAN, ballot=Ballot(2, "convener"), parts=(Assignment(0, 3, "me", 0),))
    reduction.begin(plan, 0.0)
    for chunk, loud in enumerate(found):
        reduction.averaged(Average(plan, chunk, 0, ()), f"mean {chunk}", loud=loud)
    (result,) = [one for one in sent if isinstance(one, Reduced)]
    assert result.loud == (("eve", pytest.approx(told)),)


def test_a_sender_that_was_late_again_and_again_is_not_waited_for_longer_than_the_others_need() -> None:
    done: list[Action] = []
    reduction = reduction_of([], done)
    for number in range(3):
        ballot = Ballot(number + 2, "convener")
        plan = replace(PLAN, ballot=ballot, members=(*PLAN.members, member("fast")))
        reduction.begin(plan, 0.0)
        for chunk in (0, 1):
            reduction.piece("fast", Piece(ballot, chunk, 0), 0.5)
        assert bool(senders_of(done)) == (number == 2)
        reduction.tick(TIMEOUTS.pieces)
        assert senders_of(done) == {0: ("me", "fast"), 1: ("me", "fast")}
        done.clear()
        reduction.end(ballot, TIMEOUTS.pieces)


def test_a_piece_that_trickles_is_waited_for_as_long_as_lines_explain_and_is_late_after_that() -> None:
    done: list[Action] = []
    reduction = reduction_of([], done)
    ballot, by_lines = Ballot(2, "convener"), explained(10.0, TIMEOUTS.sending)
    reduction.begin(replace(PLAN, ballot=ballot, seconds=10.0), 0.0)
    seconds = 0.0
    while seconds < by_lines + TIMEOUTS.pieces - 1.0:
        seconds += 1.0
        reduction.moving("thin", seconds)
        reduction.tick(seconds)
    assert not done
    reduction.piece("thin", Piece(ballot, 0, 0), by_lines)
    reduction.end(ballot, by_lines)
    assert reduction.patience.left("thin", by_lines) == MOST
    reduction.begin(replace(PLAN, ballot=Ballot(3, "convener"), seconds=10.0), 0.0)
    reduction.moving("thin", by_lines + TIMEOUTS.pieces)
    done.clear()
    reduction.tick(by_lines + TIMEOUTS.pieces)
    assert senders_of(done) == {0: ("me",), 1: ("me",)}
    reduction.end(Ballot(3, "convener"), by_lines + TIMEOUTS.pieces)
    assert reduction.patience.left("thin", by_lines + TIMEOUTS.pieces) == MOST - TIMEOUTS.pieces
