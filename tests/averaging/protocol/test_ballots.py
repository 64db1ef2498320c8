"""Nobody uses up the numbers of ballots, or drives those of one peer out of the reach of the others."""

from msgspec.structs import replace

from averaging.log.header import (
    Ballot,
)
from averaging.protocol.actions import Send
from averaging.protocol.commit.voting import LEAP
from averaging.protocol.messages import (
    Call,
    Meet,
    Propose,
    Refused,
    Status,
    Vote,
)
from tests.averaging.protocol.guarded_run import COORDINATOR, Run


def test_nobody_uses_up_the_numbers_of_ballots() -> None:
    run = Run()
    tip = run.entries[-1].header
    last = Ballot(2**63 - 1, "eve.0")
    bob = run.peer("bob.0", run.entries)
    header = run.next(tip, "eve.0", ballot=last)
    for lie in (
        Status(tip.head, last, convenes=False),
        Meet(tip.digest, last),
        Refused(Ballot(1, "bob.0"), last),
        Propose(last, header),
    ):
        bob.receive("eve.0", lie, 1.0)
    bob.take_actions()
    bob.receive("ann.0", Meet(tip.digest, Ballot(tip.step + 1, "ann.0")), 2.0)
    sent = [one.message for one in bob.take_actions() if isinstance(one, Send)]
    assert any(isinstance(one, Call) for one in sent) and not any(isinstance(one, Refused) for one in sent)
    assert bob.voting.new_ballot().number < 1000


def test_nobody_drives_the_ballots_of_one_peer_out_of_the_reach_of_the_others() -> None:
    run = Run()
    tip, bob, coordinator = run.entries[-1].header, run.peer("bob.0", run.entries), run.peer(COORDINATOR, run.entries)
    for lie in range(LEAP, 5 * LEAP, LEAP):
        coordinator.receive("eve.0", Status(tip.head, Ballot(lie, "eve.0"), convenes=False), 1.0)
    ballot = coordinator.voting.new_ballot()
    assert ballot.number > 4 * LEAP
    for sender, of, is_believed in (("eve.0", "eve.0", False), ("eve.0", COORDINATOR, False), (COORDINATOR, "", True)):
        bob.receive(sender, Meet(tip.digest, replace(ballot, convener=of or COORDINATOR)), 2.0)
        sent = [one.message for one in bob.take_actions() if isinstance(one, Send)]
        assert any(isinstance(one, Call) for one in sent) == is_believed


def test_a_ballot_that_leaps_as_far_as_it_may_is_not_the_last_one() -> None:
    run = Run()
    tip, bob, coordinator = run.entries[-1].header, run.peer("bob.0", run.entries), run.peer(COORDINATOR, run.entries)
    far = Ballot(tip.step + LEAP, "eve.0")
    for one in (bob, coordinator):
        one.receive("eve.0", Meet(tip.digest, far), 1.0)
    bob.receive(COORDINATOR, Meet(tip.digest, coordinator.voting.new_ballot()), 2.0)
    sent = [one.message for one in bob.take_actions() if isinstance(one, Send)]
    assert [one.ballot.convener for one in sent if isinstance(one, Call)] == ["eve.0", COORDINATOR]


def test_a_header_is_not_of_a_ballot_above_the_one_in_which_it_is_proposed() -> None:
    run = Run()
    tip = run.entries[-1].header
    for number, is_voted_for in ((2**62, False), (tip.step + 1, True)):
        ann = run.peer("ann.0", run.entries)
        ann.buffers.add(5, samples=5)
        ann.buffers.offer()
        header = run.next(tip, "eve.0", ballot=Ballot(number, "eve.0"))
        ann.receive("eve.0", Propose(Ballot(tip.step + 1, "eve.0"), header), 1.0)
        votes = [one for one in ann.take_actions() if isinstance(one, Send) and isinstance(one.message, Vote)]
        assert bool(votes) == is_voted_for


def test_nobody_is_asked_to_promise_in_the_name_of_another_convener() -> None:
    run = Run()
    tip, bob = run.entries[-1].header, run.peer("bob.0", run.entries)
    bob.receive("eve.0", Meet(tip.digest, Ballot(tip.step + 50, "ann.0")), 1.0)
    bob.receive("ann.0", Meet(tip.digest, Ballot(tip.step + 1, "ann.0")), 1.5)
    calls = [one.message for one in bob.take_actions() if isinstance(one, Send) and isinstance(one.message, Call)]
    assert [call.ballot.number for call in calls] == [tip.step + 1]
