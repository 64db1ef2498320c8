"""A member with a real pass that lies: what it says about others, and about the log, changes nothing in a guarded run.

Each lie is told to a machine as it is, and would have been believed without the check that the test is about: the same
lie is told in a run without passes, where it is.
"""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from averaging.log.chain import Chain
from averaging.log.header import (
    Ballot,
    Certificate,
    Entry,
    Farewell,
    Head,
    Header,
    Kind,
    Member,
    Part,
    Reset,
    SnapshotName,
)
from averaging.protocol import credentials as signed
from averaging.protocol.actions import Load, Send
from averaging.protocol.catching_up.catching_up import DOUBT, VAIN
from averaging.protocol.catching_up.trust import REMEMBERED
from averaging.protocol.commit import quorum
from averaging.protocol.commit.voting import Voter
from averaging.protocol.messages import (
    Anchor,
    Assignment,
    Call,
    Commit,
    Contact,
    Goodbye,
    Log,
    Meet,
    Offer,
    Plan,
    Propose,
    Reduced,
    Refused,
    Report,
    Status,
    Vote,
    WantLog,
)
from averaging.protocol.peer import Peer
from averaging.protocol.rounds.round import Phase
from averaging.protocol.settings import Settings
from tests.simulation.signatures import Credentials, Signatures

NAMES = ("ann", "bob", "eve")  # eve lies
VOTERS = tuple(f"{name}.0" for name in NAMES)
COORDINATOR = "coordinator.0"
SETTINGS = Settings("run", target_samples=10, chunks=1, snapshot_every=5)
SNAPSHOT, STEPS = 5, 8
EVERYTHING = ("first", "state", "eve's state", *(f"chunk {step}" for step in range(99)))


class Run:
    """Who there is, and the chain that they have."""

    def __init__(self, is_guarded: bool = True):
        self.signatures = Signatures(is_guarded)
        self.of: dict[str, Credentials] = {}  # by session
        self.contacts: dict[str, Contact] = {}
        for name in (*NAMES, "zoe", "coordinator"):
            contact = Contact(f"{name}.0", name, reachable=True, is_coordinator=name == "coordinator")
            self.of[contact.session] = Credentials(self.signatures, contact)
            self.contacts[contact.session] = self.of[contact.session].introduced(contact)
        ballot = Ballot(0, COORDINATOR)
        genesis = Header(
            "run",
            0,
            Kind.GENESIS,
            "",
            ballot,
            voters=VOTERS,
            tie_breaker=COORDINATOR,
            snapshot=SnapshotName(0, "first"),
        )
        self.entries = self.following([Entry(genesis, Certificate(ballot))], STEPS, VOTERS[:2])

    def next(self, previous: Header, convener: str, **fields: object) -> Header:
        """An update to which nobody objects."""
        step = previous.step + 1
        members = tuple(Member(one, one[:3], (0,), 5, True, 5) for one in VOTERS)
        named = SnapshotName(SNAPSHOT, "state") if step == SNAPSHOT + 1 else previous.snapshot
        plain: dict[str, object] = {
            "members": members,
            "snapshot": named,
            "parts": (Part("bob.0", (f"chunk {step}",)),),
        }
        header = Header(
            "run",
            step,
            Kind.UPDATE,
            previous.digest,
            Ballot(step, convener),
            voters=VOTERS,
            tie_breaker=COORDINATOR,
            resets=previous.resets,
        )
        return replace(header, **{**plain, **fields})  # type: ignore[arg-type]

    def following(self, entries: Sequence[Entry], count: int, votes: Sequence[str], **fields: object) -> list[Entry]:
        """So many more entries, for which these have voted; the first one convenes."""
        made = list(entries)
        for _ in range(count):
            header = self.next(made[-1].header, votes[0], **fields)
            made.append(Entry(header, self.certificate(header, header.ballot, votes)))
        return made

    def certificate(self, header: Header, ballot: Ballot, votes: Sequence[str], by: str = "") -> Certificate:
        """Of these votes, signed by their sessions, or all of them by another."""
        return Certificate(ballot, tuple(votes), signatures=tuple(self.vote(header, ballot, one, by) for one in votes))

    def vote(self, header: Header, ballot: Ballot, session: str, by: str = "") -> bytes:
        """The signature of a vote."""
        return self.of[by or session].sign(signed.vote(session, header.previous, ballot, header.digest))

    def anchor(self, head: Head, by: str = COORDINATOR, snapshot: SnapshotName | None = None) -> Anchor:
        """Signed by the authority, or by somebody else with a key of his own."""
        content = signed.head(head, snapshot)
        return Anchor(
            head, snapshot, self.of[by].authorize(content) if by == COORDINATOR else self.of[by].sign(content)
        )

    def peer(self, session: str, has: Sequence[Entry] = (), knows: Sequence[str] = ()) -> Peer:
        """That has a chain, and is connected to others."""
        machine = Peer(self.contacts[session], SETTINGS, 0.0, EVERYTHING, credentials=self.of[session])
        if has:
            machine.start(Chain(has), [SnapshotName(0, "first"), SnapshotName(SNAPSHOT, "state")])
        machine.contacts([self.contacts[one] for one in (knows or self.contacts)], 0.0)
        machine.take_actions()
        return machine


def asks(machine: Peer, session: str, head: Head, now: float = 1.0, anchor: Anchor | None = None) -> None:
    """Have the machine ask a session for its log."""
    machine.receive(session, Status(head, None, convenes=False, anchor=anchor), now)
    for _ in range(20):
        actions = machine.take_actions()
        if any(isinstance(one, Send) and one.to == session and isinstance(one.message, WantLog) for one in actions):
            return
        now += 0.5
        machine.tick(now)
    raise AssertionError(f"{session} was not asked")


def told(machine: Peer, session: str, log: Log, now: float = 1.0, heard: Anchor | None = None) -> Head | None:
    """Where the machine stands after a session has told its log; the chunks are here."""
    asks(machine, session, log.entries[-1].header.head, now, heard)
    machine.receive(session, log, now + 0.1)
    return machine.head


BOTH = pytest.mark.parametrize("is_guarded", [True, False], ids=["guarded", "open"])


# -- the log


def made_up(run: Run, by: str = "eve.0") -> list[Entry]:
    """A chain from the beginning, in which others have voted for everything that eve wants."""
    ballot = Ballot(0, COORDINATOR)
    genesis = replace(run.entries[0].header, snapshot=SnapshotName(0, "eve's state"))
    entries = [Entry(genesis, Certificate(ballot))]
    for _ in range(STEPS + 5):
        header = run.next(entries[-1].header, "eve.0", snapshot=genesis.snapshot)
        entries.append(Entry(header, run.certificate(header, header.ballot, VOTERS, by=by)))
    return entries


@BOTH
def test_a_newcomer_takes_over_no_made_up_chain(is_guarded: bool) -> None:
    run = Run(is_guarded)
    entries = made_up(run)
    head = entries[-1].header.head
    for anchor in (None, run.anchor(head, by="eve.0"), run.anchor(run.entries[-1].header.head)):
        newcomer = run.peer("zoe.0")
        found = told(newcomer, "eve.0", Log(tuple(entries), SnapshotName(0, "eve's state"), anchor))
        assert found == (None if is_guarded else head)


def test_a_newcomer_takes_over_the_real_chain_by_the_authoritys_word() -> None:
    run = Run()
    for at in (0, SNAPSHOT, STEPS):
        newcomer = run.peer("zoe.0")
        anchor = run.anchor(run.entries[at].header.head)
        log = Log(tuple(run.entries), SnapshotName(SNAPSHOT, "state"), anchor)
        assert told(newcomer, "eve.0", log) == run.entries[-1].header.head
        assert [one.snapshot for one in newcomer.take_actions() if isinstance(one, Load)] in ([], ["state"])


@BOTH
def test_a_real_chain_is_not_continued_by_votes_that_were_not_given(is_guarded: bool) -> None:
    run = Run(is_guarded)
    tip = run.entries[-1].header
    header = run.next(tip, "eve.0", members=(Member("eve.0", "eve", (0,), 10**6, True),), voters=("eve.0",))
    ballot, tie = header.ballot, Ballot(header.ballot.number, COORDINATOR)
    others = [Farewell(one, "", -1, None) for one in VOTERS[:2]]
    gone = tuple(replace(one, signature=run.of["eve.0"].sign(signed.farewell(one))) for one in others)
    own = run.certificate(header, ballot, ("eve.0",))
    copied = run.entries[-1].certificate.signatures[0]
    forged = {
        "her name under all votes": run.certificate(header, ballot, VOTERS, by="eve.0"),
        "votes without signatures": Certificate(ballot, VOTERS),
        "votes for another header": Certificate(ballot, VOTERS, signatures=(copied,) * 3),
        "votes in another ballot": run.certificate(header, Ballot(1, "eve.0"), VOTERS, by="eve.0"),
        "all others have left": replace(own, goodbyes=gone),
    }
    for certificate in forged.values():
        ann = run.peer("ann.0", run.entries)
        ann.receive("eve.0", Commit(Entry(header, certificate)), 1.0)
        assert (ann.head == header.head) == (not is_guarded)
        zoe = run.peer("zoe.0")
        entries = (*run.entries, Entry(header, certificate))
        log = Log(entries, SnapshotName(SNAPSHOT, "state"), run.anchor(tip.head))
        assert (told(zoe, "eve.0", log) == header.head) == (not is_guarded)
    two = Run(is_guarded)
    two.entries = two.following(two.entries, 1, VOTERS[:2], voters=("ann.0", "eve.0"))
    header = two.next(two.entries[-1].header, "eve.0")
    ann = two.peer("ann.0", two.entries)  # of two voters the coordinator needs one, but there has to be its own vote
    ann.receive("eve.0", Commit(Entry(header, two.certificate(header, replace(tie, number=99), ("eve.0",)))), 1.0)
    assert (ann.head == header.head) == (not is_guarded)


def test_a_chain_is_continued_by_votes_that_were_given() -> None:
    run = Run()
    ann = run.peer("ann.0", run.entries)
    entries = run.following(run.entries, 1, ("bob.0", "eve.0"))
    ann.receive("bob.0", Commit(entries[-1]), 1.0)
    assert ann.head == entries[-1].header.head


@BOTH
def test_the_state_of_a_real_chain_is_the_one_that_headers_name(is_guarded: bool) -> None:
    run = Run(is_guarded)
    newcomer = run.peer("zoe.0")
    log = Log(tuple(run.entries), SnapshotName(SNAPSHOT, "eve's state"), run.anchor(run.entries[-1].header.head))
    assert (told(newcomer, "eve.0", log) is None) == is_guarded


def test_the_authority_names_a_state_that_no_header_names_yet() -> None:
    run = Run()
    entries, name = tuple(run.entries[: SNAPSHOT + 1]), SnapshotName(SNAPSHOT, "state")
    head = entries[-1].header.head
    for anchor in (run.anchor(head), run.anchor(head, by="eve.0", snapshot=name)):
        assert told(run.peer("zoe.0"), "ann.0", Log(entries, name, anchor)) is None
    assert told(run.peer("zoe.0"), "ann.0", Log(entries, name, run.anchor(head, snapshot=name))) == head


def test_a_fork_by_voters_of_long_ago_is_refused_where_the_newest_anchor_is_known() -> None:
    """Eve was once the only voter, so her votes from there on are well signed."""
    run = Run()
    alone = run.following(run.entries[:2], 1, VOTERS[:2], voters=("eve.0",))
    real = run.following(alone, 6, ("eve.0",))
    name = SnapshotName(SNAPSHOT, "eve's state")
    forked = run.following(alone, 20, ("eve.0",), snapshot=name, voters=("eve.0",))
    lie = Log(tuple(forked), name, run.anchor(alone[-1].header.head))
    assert told(run.peer("zoe.0"), "eve.0", lie) == forked[-1].header.head  # what such votes can do
    newest = run.anchor(real[-1].header.head)
    assert told(run.peer("zoe.0"), "eve.0", lie, heard=newest) is None


def test_malformed_logs_change_nothing() -> None:
    for is_guarded in (True, False):
        run = Run(is_guarded)
        anchor = run.anchor(run.entries[-1].header.head)
        entries, name = tuple(run.entries), SnapshotName(SNAPSHOT, "state")
        other = [Entry(replace(one.header, run="another"), one.certificate) for one in entries[:1]]
        for log in (
            Log((*entries[:3], *entries[4:]), name, anchor),
            Log(entries[::-1], name, anchor),
            Log(entries, SnapshotName(STEPS + 1, "state"), anchor),
            Log(entries[SNAPSHOT + 1 :], name, anchor),
            Log(tuple(other), SnapshotName(0, "first"), anchor),
        ):
            machine = run.peer("zoe.0")
            assert told(machine, "eve.0", log) is None
            machine.tick(3.0)
            assert machine.head is None


def test_a_log_that_nobody_asked_for_is_not_read() -> None:
    run = Run()
    newcomer = run.peer("zoe.0")
    newcomer.receive("eve.0", Log(tuple(run.entries), SnapshotName(SNAPSHOT, "state"), None), 1.0)
    assert newcomer.head is None


def test_without_an_anchor_most_of_three_users_are_believed() -> None:
    run = Run()
    log = Log(tuple(run.entries[3:]), SnapshotName(SNAPSHOT, "state"))
    alone = run.following(run.entries[:1], STEPS, ("eve.0",), voters=("eve.0",))  # nobody has voted but her
    name = SnapshotName(SNAPSHOT, "eve's state")
    lie = Log(tuple(run.following(alone[3:], 5, ("eve.0",), voters=("eve.0",), snapshot=name)), name)
    newcomer = run.peer("zoe.0")
    for now, (session, tells) in enumerate([("eve.0", lie), ("ann.0", log)], 1):
        assert told(newcomer, session, tells, 10.0 * now) is None
    assert told(newcomer, "bob.0", log, 30.0) == run.entries[-1].header.head
    deceived = run.peer("zoe.0")
    for now in range(1, 200, 40):
        assert told(deceived, "eve.0", lie, float(now)) is None


def test_a_coordinator_with_an_old_chain_waits_before_it_believes_two_users_that_agree() -> None:
    run = Run()
    run.entries = run.following(run.entries, 40, VOTERS[:2])
    old, log = run.entries[:2], Log(tuple(run.entries[3:]), SnapshotName(SNAPSHOT, "state"))
    machine = run.peer(COORDINATOR, old, knows=("ann.0", "bob.0"))
    last = 0.0
    for now in range(1, 200, 17):
        last = float(now)
        if told(machine, VOTERS[now % 2], log, last) == run.entries[-1].header.head:
            break
    assert last >= REMEMBERED
    newcomer = run.peer("zoe.0", knows=("ann.0", "bob.0"))
    for now in range(1, 200, 17):
        assert told(newcomer, VOTERS[now % 2], log, float(now)) is None


def test_a_peer_that_says_to_be_ahead_and_does_not_show_it_holds_nobody_up_for_long() -> None:
    run = Run()
    machine = run.peer("ann.0", run.entries)
    held_up = 0.0
    for half in range(int(2 * DOUBT)):
        now = half / 2
        session = f"eve.{half // 10}"  # a peer can begin as many as it likes
        machine.receive(session, Status(Head(10**6, "made up"), None, convenes=False), now)
        machine.tick(now)
        held_up += machine.is_behind / 2
    assert held_up <= (VAIN + 1) * SETTINGS.timing.fetch


def test_a_peer_that_is_no_voter_and_says_to_convene_does_not_keep_voters_from_taking_over() -> None:
    run = Run()
    bob = run.peer("bob.0", run.entries)
    head, asked = run.entries[-1].header.head, False
    for half in range(int(4 * SETTINGS.timing.absence)):  # in which the coordinator and ann say nothing
        now = half / 2
        bob.receive("zoe.0", Status(head, None, convenes=True), now)
        bob.receive("eve.0", Report(head, SETTINGS.target_samples), now)
        bob.tick(now)
        asked |= any(isinstance(one, Send) and isinstance(one.message, Meet) for one in bob.take_actions())
    assert asked


# -- resets and rollbacks


@BOTH
def test_only_the_authority_resets_and_rolls_back(is_guarded: bool) -> None:
    run = Run(is_guarded)
    tip = run.entries[-1].header
    for kind in (Kind.RESET, Kind.ROLLBACK):
        at = (Reset(tip.step + 1, Ballot(99, "eve.0")),) if kind is Kind.RESET else ()
        fields = {"kind": kind, "parts": (), "members": (), "resets": at, "ballot": Ballot(99, "eve.0")}
        header = run.next(tip, "eve.0", voters=("eve.0",), **fields)
        if kind is Kind.ROLLBACK:
            header = replace(header, snapshot=SnapshotName(header.step, "state"))
        replayed = run.of[COORDINATOR].authorize(signed.head(tip.head, None))
        orders = [b"", run.of["eve.0"].sign(signed.order(header)), replayed]
        orders = orders if is_guarded else [b""]
        for order in orders:
            ann = run.peer("ann.0", run.entries)
            forged = replace(header, order=order)
            certificate = run.certificate(forged, forged.ballot, ("eve.0", *VOTERS[:2]))
            ann.receive("eve.0", Commit(Entry(forged, certificate)), 1.0)
            assert (ann.head == tip.head) == is_guarded
        ann = run.peer("ann.0", run.entries)
        real = signed.ordered(header, run.of[COORDINATOR])
        ann.receive("bob.0", Commit(Entry(real, run.certificate(real, real.ballot, ("eve.0", *VOTERS[:2])))), 1.0)
        assert ann.head == real.head


# -- goodbyes


def test_a_goodbye_counts_from_its_session_alone() -> None:
    run = Run()
    tip = run.entries[-1].header
    said = Goodbye("bob.0", tip.digest, tip.step, None, None)
    by_eve = replace(said, signature=run.of["eve.0"].sign(signed.farewell(said.farewell)))
    real = replace(said, signature=run.of["bob.0"].sign(signed.farewell(said.farewell)))
    ann = run.peer("ann.0", run.entries)
    for sender, goodbye in (("eve.0", said), ("eve.0", by_eve), ("eve.0", real), ("bob.0", said), ("bob.0", by_eve)):
        ann.receive(sender, goodbye, 1.0)
        assert not ann._contacts.goodbyes
    ann.receive("bob.0", real, 1.0)
    assert list(ann._contacts.goodbyes) == ["bob.0"]


# -- contacts


@BOTH
def test_contacts_that_their_sessions_have_not_signed_give_no_power(is_guarded: bool) -> None:
    run = Run(is_guarded)
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
        ann.receive("eve.0", Propose(tip.digest, header.ballot, header, tuple(contacts)), 1.0)
        votes = [one for one in ann.take_actions() if isinstance(one, Send) and isinstance(one.message, Vote)]
        assert bool(votes) == (not is_guarded)


def test_an_honest_proposal_with_the_contacts_of_strangers_is_voted_for() -> None:
    run = Run()
    tip = run.entries[-1].header
    members = tuple(Member(f"{one}.0", one, (0,), 5, True, 5) for one in ("ann", "zoe"))
    recent = Chain(run.entries).last(quorum.WINDOW)
    header = run.next(tip, "bob.0", members=members, voters=quorum.choose_voters(members, recent))
    ann = run.peer("ann.0", run.entries, knows=("bob.0", COORDINATOR))
    ann.buffers.add(5, samples=5)
    ann.buffers.offer()
    ann.receive("bob.0", Propose(tip.digest, header.ballot, header, (run.contacts["zoe.0"],)), 1.0)
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


def test_nobody_uses_up_the_numbers_of_ballots() -> None:
    run = Run()
    tip = run.entries[-1].header
    last = Ballot(2**63 - 1, "eve.0")
    bob = run.peer("bob.0", run.entries)
    header = run.next(tip, "eve.0", ballot=last)
    for lie in (
        Status(tip.head, last, convenes=False),
        Meet(tip.digest, tip.step, last),
        Refused(tip.digest, Ballot(1, "bob.0"), last),
        Propose(tip.digest, last, header),
    ):
        bob.receive("eve.0", lie, 1.0)
    bob.take_actions()
    bob.receive("ann.0", Meet(tip.digest, tip.step, Ballot(tip.step + 1, "ann.0")), 2.0)
    sent = [one.message for one in bob.take_actions() if isinstance(one, Send)]
    assert any(isinstance(one, Call) for one in sent) and not any(isinstance(one, Refused) for one in sent)
    assert bob.voting.new_ballot().number < 1000


def test_a_round_is_ended_by_no_refusal_of_a_peer_that_is_not_needed_or_lies() -> None:
    run = Run()
    tip = run.entries[-1].header
    coordinator = run.peer(COORDINATOR, run.entries)
    coordinator.receive("ann.0", Report(tip.head, SETTINGS.target_samples), 1.0)
    coordinator.tick(1.0)
    current = coordinator.leading.round
    assert current is not None
    for session, promised in (("zoe.0", Ballot(99, "zoe.0")), ("eve.0", Ballot(2**62, "eve.0"))):
        coordinator.receive(session, Refused(tip.digest, current.ballot, promised), 1.5)
        assert coordinator.leading.round is current and not current.is_over
    coordinator.receive("eve.0", Refused(tip.digest, current.ballot, Ballot(99, "eve.0")), 1.5)
    assert coordinator.leading.round is not current


def test_a_plan_counts_that_comes_from_the_convener_of_a_ballot_that_was_promised() -> None:
    run = Run()
    tip, bob = run.entries[-1].header, run.peer("bob.0", run.entries)
    members, parts = (("ann.0", (0,)), ("bob.0", ())), (Assignment(0, 1, "ann.0", 0),)
    real = Plan(tip.digest, Ballot(tip.step + 1, "ann.0"), members, parts, (1, 0))
    higher = replace(real, ballot=Ballot(2**62, "eve.0"))
    bob.receive("eve.0", higher, 1.0)
    bob.receive("ann.0", Meet(tip.digest, tip.step, real.ballot), 1.5)
    bob.receive("eve.0", higher, 2.0)
    bob.receive("eve.0", replace(real, parts=(Assignment(0, 1, "eve.0", 1),)), 2.0)
    assert bob.reducing.plan is None
    bob.receive("ann.0", real, 2.5)
    assert bob.reducing.plan == real


def test_a_mean_counts_that_comes_from_a_reducer_that_was_asked_for_it() -> None:
    run = Run()
    tip, coordinator = run.entries[-1].header, run.peer(COORDINATOR, run.entries)
    for session in VOTERS:
        coordinator.receive(session, Report(tip.head, SETTINGS.target_samples), 1.0)
    coordinator.tick(1.0)
    current = coordinator.leading.round
    assert current is not None
    for session in VOTERS:
        offer = Offer(0, 1, SETTINGS.target_samples, 1.0)
        coordinator.receive(session, Call(tip.digest, current.ballot, (offer,), None), 1.5)
    (part,) = next(
        one.message.parts
        for one in coordinator.take_actions()
        if isinstance(one, Send) and isinstance(one.message, Plan)
    )
    assert part.reducer == "ann.0"
    coordinator.receive("eve.0", Reduced(current.ballot, part, ("hers",), ()), 2.0)
    coordinator.receive("ann.0", Reduced(current.ballot, part, ("one", "too many"), ()), 2.0)
    assert current.phase is Phase.REDUCING
    coordinator.receive("ann.0", Reduced(current.ballot, part, ("right",), ()), 2.0)
    assert current.header is not None and current.header.chunks == ("right",)


def test_nobody_is_asked_to_promise_in_the_name_of_another_convener() -> None:
    run = Run()
    tip, bob = run.entries[-1].header, run.peer("bob.0", run.entries)
    bob.receive("eve.0", Meet(tip.digest, tip.step, Ballot(tip.step + 50, "ann.0")), 1.0)
    bob.receive("ann.0", Meet(tip.digest, tip.step, Ballot(tip.step + 1, "ann.0")), 1.5)
    calls = [one.message for one in bob.take_actions() if isinstance(one, Send) and isinstance(one.message, Call)]
    assert [call.ballot.number for call in calls] == [tip.step + 1]
