"""A member with a real pass that lies about others, or in a round, changes nothing.

Each lie is told to a machine as it is, and would have been believed without the check that the test is about: the same
lie is told where signatures are not checked, and is.
"""

from msgspec.structs import replace

from averaging.log.chain import Chain
from averaging.log.header import (
    Ballot,
    Entry,
    Farewell,
    Head,
    HeaderKind,
    Member,
    Reset,
    SnapshotName,
)
from averaging.protocol import credentials as signed
from averaging.protocol.actions import Send
from averaging.protocol.commit import quorum
from averaging.protocol.commit.voting import Voter
from averaging.protocol.messages import (
    Assignment,
    Call,
    Commit,
    Contact,
    Goodbye,
    Meet,
    Offer,
    Plan,
    Propose,
    Reduced,
    Refused,
    Report,
    Status,
    Vote,
)
from averaging.protocol.rounds.round import Phase
from tests.averaging.log.headers import member
from tests.averaging.protocol.guarded_run import BOTH, COORDINATOR, SETTINGS, VOTERS, Run

# -- resets and rollbacks


@BOTH
def test_only_the_authority_resets_and_rolls_back(are_checked: bool) -> None:
    run = Run(are_checked)
    tip = run.entries[-1].header
    for kind in (HeaderKind.RESET, HeaderKind.ROLLBACK):
        at = (Reset(tip.step + 1, Ballot(99, "eve.0")),) if kind is HeaderKind.RESET else ()
        fields = {"kind": kind, "parts": (), "members": (), "resets": at, "ballot": Ballot(99, "eve.0")}
        header = run.next(tip, "eve.0", voters=("eve.0",), **fields)
        if kind is HeaderKind.ROLLBACK:
            header = replace(header, snapshot=SnapshotName(header.step, "state"))
        replayed = run.of[COORDINATOR].authorize(signed.head(tip.head, None))
        orders = [b"", run.of["eve.0"].sign(signed.order(header)), replayed]
        orders = orders if are_checked else [b""]
        for order in orders:
            ann = run.peer("ann.0", run.entries)
            forged = replace(header, order=order)
            certificate = run.certificate(forged, forged.ballot, ("eve.0", *VOTERS[:2]))
            ann.receive("eve.0", Commit(Entry(forged, certificate)), 1.0)
            assert (ann.head == tip.head) == are_checked
        ann = run.peer("ann.0", run.entries)
        real = signed.ordered(header, run.of[COORDINATOR])
        ann.receive("bob.0", Commit(Entry(real, run.certificate(real, real.ballot, ("eve.0", *VOTERS[:2])))), 1.0)
        assert ann.head == real.head


# -- goodbyes


def test_a_goodbye_counts_from_its_session_alone() -> None:
    run = Run()
    tip = run.entries[-1].header
    said = Farewell("bob.0", tip.digest, tip.step, None)
    by_eve = Goodbye(signed.signed_farewell(said, run.of["eve.0"]), None)
    real = Goodbye(signed.signed_farewell(said, run.of["bob.0"]), None)
    ann = run.peer("ann.0", run.entries)
    unsigned = Goodbye(said, None)
    for sender, goodbye in (
        ("eve.0", unsigned),
        ("eve.0", by_eve),
        ("eve.0", real),
        ("bob.0", unsigned),
        ("bob.0", by_eve),
    ):
        ann.receive(sender, goodbye, 1.0)
        assert not ann._contacts.goodbyes
    ann.receive("bob.0", real, 1.0)
    assert list(ann._contacts.goodbyes) == ["bob.0"]


# -- contacts


@BOTH
def test_contacts_that_their_sessions_have_not_signed_give_no_power(are_checked: bool) -> None:
    run = Run(are_checked)
    tip = run.entries[-1].header
    eve = run.of["eve.0"]
    ghosts = [eve.introduced(Contact(f"ghost{one}.0", f"ghost {one}", True)) for one in range(3)]
    members = tuple(Member(one.session, one.user, (0,), 5, True, 5) for one in ghosts)
    recent = Chain(run.entries).last(quorum.WINDOW)
    own = eve.introduced(Contact("eve.1", "eve", True, is_coordinator=True))
    lies = (
        (ghosts, run.next(tip, "eve.0", members=members, voters=quorum.choose_voters(members, recent))),
        ([own], run.next(tip, "eve.0", tie_breaker="eve.1")),
    )
    for contacts, header in lies:
        ann = run.peer("ann.0", run.entries)
        ann.buffers.add(5, samples=5)
        ann.buffers.offer()
        ann.receive("eve.0", Propose(header.ballot, header, tuple(contacts)), 1.0)
        votes = [one for one in ann.take_actions() if isinstance(one, Send) and isinstance(one.message, Vote)]
        assert bool(votes) == (not are_checked)


def test_an_honest_proposal_with_the_contacts_of_strangers_is_voted_for() -> None:
    run = Run()
    tip = run.entries[-1].header
    members = tuple(Member(f"{one}.0", one, (0,), 5, True, 5) for one in ("ann", "zoe"))
    recent = Chain(run.entries).last(quorum.WINDOW)
    header = run.next(tip, "bob.0", members=members, voters=quorum.choose_voters(members, recent))
    ann = run.peer("ann.0", run.entries, knows=("bob.0", COORDINATOR))
    ann.buffers.add(5, samples=5)
    ann.buffers.offer()
    ann.receive("bob.0", Propose(header.ballot, header, (run.contacts["zoe.0"],)), 1.0)
    assert any(isinstance(one, Send) and isinstance(one.message, Vote) for one in ann.take_actions())


# -- votes


def test_a_voter_accepts_one_header_in_a_ballot() -> None:
    run = Run()
    tip = run.entries[-1].header
    first = run.next(tip, "eve.0")
    voter = Voter("ann.0", tip.digest)
    assert voter.accept(first.ballot, first) and voter.accept(first.ballot, first)
    assert not voter.accept(first.ballot, replace(first, voters=("eve.0",)))
    assert voter.accept(Ballot(99, "eve.0"), replace(first, voters=("eve.0",)))


def test_who_says_to_be_ahead_keeps_nobody_from_taking_part_in_a_round() -> None:
    run = Run()
    tip, bob = run.entries[-1].header, run.peer("bob.0", run.entries)
    bob.receive("eve.0", Status(Head(tip.step + 1, "f" * 64), None, convenes=False), 1.0)
    bob.receive(COORDINATOR, Meet(tip.digest, Ballot(tip.step + 1, COORDINATOR)), 1.5)
    assert bob.is_behind
    assert any(isinstance(one, Send) and isinstance(one.message, Call) for one in bob.take_actions())


def test_only_the_coordinator_says_who_rests() -> None:
    run = Run()
    tip, bob = run.entries[-1].header, run.peer("bob.0", run.entries)
    eve = Member("eve.0", "eve", (0,), 5, True, 5)
    for session in ("eve.0", COORDINATOR):
        ballot = Ballot(bob.voting.highest + 1, session)
        plan = Plan(tip.digest, ballot, (eve,), (Assignment(0, 1, "eve.0", 0),), ("bob.0",))
        bob.receive(session, Meet(tip.digest, ballot), 1.0)
        bob.receive(session, plan, 1.5)
        assert bob.reducing.plan == plan
        assert bob.resting.rests == (session == COORDINATOR)


def test_a_round_is_ended_by_no_refusal_of_a_peer_that_is_not_needed_or_lies() -> None:
    run = Run()
    tip = run.entries[-1].header
    coordinator = run.peer(COORDINATOR, run.entries)
    coordinator.receive("ann.0", Report(tip.head, SETTINGS.target_samples), 1.0)
    coordinator.tick(1.0)
    current = coordinator.convening.round
    assert current is not None
    for session, promised in (("zoe.0", Ballot(99, "zoe.0")), ("eve.0", Ballot(2**62, "eve.0"))):
        coordinator.receive(session, Refused(current.ballot, promised), 1.5)
        assert coordinator.convening.round is current and not current.is_over
    coordinator.receive("eve.0", Refused(current.ballot, Ballot(99, "eve.0")), 1.5)
    assert coordinator.convening.round is not current


def test_a_voter_that_refuses_all_ballots_ends_some_rounds_and_no_more() -> None:
    run = Run()
    tip, coordinator = run.entries[-1].header, run.peer(COORDINATOR, run.entries)
    now, ended = 1.0, 0
    while now < 60.0:
        now += 0.5
        coordinator.receive("ann.0", Report(tip.head, SETTINGS.target_samples), now)
        coordinator.tick(now)
        current = coordinator.convening.round
        if current is not None:
            refused = Refused(current.ballot, Ballot(current.ballot.number + 1, "eve.0"))
            coordinator.receive("eve.0", refused, now)
            if coordinator.convening.round is current:
                break
            ended += 1
    assert 3 <= ended <= 6


def test_a_plan_counts_that_comes_from_the_convener_of_a_ballot_that_was_promised() -> None:
    run = Run()
    tip, bob = run.entries[-1].header, run.peer("bob.0", run.entries)
    parts = (Assignment(0, 1, "ann.0", 0),)
    ann, bobs = member("ann.0", user="ann"), Member("bob.0", "bob", (), 0, reachable=True)
    members = ann, bobs
    real = Plan(tip.digest, Ballot(tip.step + 1, "ann.0"), members, parts)
    higher = replace(real, ballot=Ballot(2**62, "eve.0"))
    bob.receive("eve.0", higher, 1.0)
    bob.receive("ann.0", Meet(tip.digest, real.ballot), 1.5)
    bob.receive("eve.0", higher, 2.0)
    bob.receive("eve.0", replace(real, parts=(Assignment(0, 1, "eve.0", 1),)), 2.0)
    for none in ((Assignment(0, 2**62, "bob.0", 0),), (Assignment(0, 2**62, "ann.0", 0),), ()):
        bob.receive("ann.0", replace(real, parts=none), 2.0)
    for false in (
        (ann, ann, bobs),
        (bobs, ann),
        (replace(ann, user="bob"), bobs),
        (replace(ann, samples=2**40), bobs),
        (replace(ann, weight=0), bobs),
        (ann, replace(bobs, weight=1)),
        (ann, replace(bobs, buffers=(7,), weight=1, samples=1)),
    ):
        bob.receive("ann.0", replace(real, members=false), 2.0)
        assert bob.reducing.plan is None
    bob.receive("ann.0", real, 2.5)
    assert bob.reducing.plan == real


def test_a_mean_counts_that_comes_from_a_reducer_that_was_asked_for_it() -> None:
    run = Run()
    tip, coordinator = run.entries[-1].header, run.peer(COORDINATOR, run.entries)
    for session in VOTERS:
        coordinator.receive(session, Report(tip.head, SETTINGS.target_samples), 1.0)
    coordinator.tick(1.0)
    current = coordinator.convening.round
    assert current is not None
    for session in VOTERS:
        offer = Offer(0, 1, SETTINGS.target_samples, 1.0)
        coordinator.receive(session, Call(tip.digest, current.ballot, (offer,), None), 1.5)
    (part,) = next(
        one.message.parts
        for one in coordinator.take_actions()
        if isinstance(one, Send) and isinstance(one.message, Plan)
    )
    reducer = part.reducer
    (*_, another) = sorted({*VOTERS} - {reducer})
    coordinator.receive(another, Reduced(current.ballot, part, ("hers",), ()), 2.0)
    coordinator.receive(reducer, Reduced(current.ballot, part, ("one", "too many"), ()), 2.0)
    assert current.phase is Phase.REDUCING
    coordinator.receive(reducer, Reduced(current.ballot, part, ("right",), ()), 2.0)
    assert current.header is not None and current.header.chunks == ("right",)
