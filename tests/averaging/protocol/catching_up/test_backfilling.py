"""A coordinator that was away for long asks for the headers that it has missed, and believes only what leads to it."""

from msgspec.structs import replace

from averaging.log.chain import Chain
from averaging.log.header import Ballot, Entry, Gap, HeaderKind, Reset, SnapshotName
from averaging.protocol.actions import Credit, Load, Send
from averaging.protocol.catching_up.backfilling import MOST_HEADERS
from averaging.protocol.commit import quorum
from averaging.protocol.messages import Anchor, Contact, Headers, Log, Status, WantHeaders
from averaging.protocol.peer import LogPeer
from averaging.protocol.settings import Settings
from tests.averaging.believing import Believing
from tests.averaging.log.headers import chain_of, header, member

COORDINATOR = Contact("coordinator.1", "coordinator", reachable=True, is_coordinator=True)
ANN = Contact("ann.0", "ann", reachable=True)
SETTINGS = Settings("run", target_samples=10, chunks=0, snapshot_every=100)
STEPS, HAD, SNAPSHOT = 250, 5, 240
ENTRIES = chain_of(STEPS, members=(member("ann.0", 5, "ann"),), voters=("ann.0",))


def away_for_long() -> LogPeer:
    """A coordinator with the first headers; it has just loaded a snapshot."""
    machine = LogPeer(COORDINATOR, SETTINGS, Believing(), 0.0, held=("first", "new"))
    machine.start(Chain(ENTRIES[:HAD]), [SnapshotName(0, "first")])
    machine.contacts([ANN], 0.0)
    following = tuple(ENTRIES[SNAPSHOT - quorum.WINDOW :])
    machine.receive("ann.0", Status(following[-1].header.head, None, convenes=False), 0.5)
    name = SnapshotName(SNAPSHOT, "new")
    anchor = Anchor(following[-1].header.head, name, b"the authority's")
    machine.receive("ann.0", Log(following, name, anchor), 1.0)
    actions = machine.take_actions()
    (load,) = [one for one in actions if isinstance(one, Load)]
    first = SNAPSHOT - quorum.WINDOW
    assert [one.header.step for one in load.entries] == list(range(first, SNAPSHOT + 1))
    assert load.gaps == (Gap(first - 1, ENTRIES[first - 1].header.digest, above=HAD - 1),)
    return machine


def asked(machine: LogPeer, now: float) -> WantHeaders | None:
    """What it asks for when time passes."""
    machine.tick(now)
    sent = [one.message for one in machine.take_actions() if isinstance(one, Send)]
    return next((message for message in sent if isinstance(message, WantHeaders)), None)


def test_each_missed_header_is_credited_once_however_many_there_are() -> None:
    machine = away_for_long()
    giver = LogPeer(ANN, SETTINGS, Believing(), 0.0, held=("first",))
    giver.start(Chain(ENTRIES), [SnapshotName(0, "first")])
    credited: list[Entry] = []
    answers, now = 0, 2.0
    while (want := asked(machine, now)) is not None:
        giver.receive(COORDINATOR.session, want, now)
        answer = next(one.message for one in giver.take_actions() if isinstance(one, Send))
        assert isinstance(answer, Headers)
        machine.receive("ann.0", answer, now)
        machine.receive("ann.0", answer, now)  # twice
        credited += [one for act in machine.take_actions() if isinstance(act, Credit) for one in act.entries]
        answers, now = answers + 1, now + 0.5
    missed = SNAPSHOT - quorum.WINDOW - HAD
    assert sorted(one.header.step for one in credited) == list(range(HAD, HAD + missed))
    assert answers == -(-missed // MOST_HEADERS)
    assert machine.backfilling.gaps == []


def test_what_a_disk_has_lost_is_asked_for_like_what_was_missed() -> None:
    machine = LogPeer(COORDINATOR, SETTINGS, Believing(), 0.0, held=("first",))
    machine.start(Chain(ENTRIES), [SnapshotName(0, "first")])
    machine.contacts([ANN], 0.0)
    gap = Gap(7, ENTRIES[7].header.digest, 6)
    for _ in range(2):
        machine.backfilling.lacks([gap])
        assert machine.take_actions()[-1] == Credit((), (gap,))
    assert asked(machine, 2.0) == WantHeaders(7, gap.digest)
    machine.receive("ann.0", Headers(tuple(ENTRIES[:8])), 2.0)
    assert Credit((ENTRIES[7],), ()) in machine.take_actions()


def test_headers_of_another_chain_are_not_taken() -> None:
    machine = away_for_long()
    (gap,) = machine.backfilling.gaps
    forged = chain_of(gap.step + 1, members=(member("eve.0", 99, "eve"),))
    machine.receive("eve.0", Headers(tuple(forged)), 2.0)
    machine.receive("eve.0", Headers((*forged, ENTRIES[gap.step])), 2.0)  # only its last one leads to the chain
    (credit,) = [one for one in machine.take_actions() if isinstance(one, Credit)]
    assert credit.entries == (ENTRIES[gap.step],)
    assert credit.gaps == (Gap(gap.step - 1, ENTRIES[gap.step - 1].header.digest, gap.above),)
    machine.receive("eve.0", Headers(()), 2.0)


def test_each_gap_is_asked_for_in_its_turn() -> None:
    """A header that no peer has any more does not hold up the others."""
    machine = away_for_long()
    (gap,) = machine.backfilling.gaps
    machine.backfilling.gaps = [Gap(200, "lost", 100), gap]
    wanted = [asked(machine, 10.0 * turn) for turn in range(1, 5)]
    assert [one.step for one in wanted if one is not None] == [200, gap.step, 200, gap.step]


def test_peers_are_asked_in_turn_and_one_that_has_answered_at_once_again() -> None:
    machine = away_for_long()
    (gap,) = machine.backfilling.gaps
    machine.contacts([ANN, Contact("bela.0", "bela", reachable=True)], 2.0)
    for now in (3.0, 4.0, 6.0):
        machine.tick(now)
    machine.receive("ann.0", Headers((ENTRIES[gap.step],)), 6.1)
    machine.tick(6.2)
    sent = [one for one in machine.take_actions() if isinstance(one, Send) and isinstance(one.message, WantHeaders)]
    assert [one.to for one in sent] == ["ann.0", "bela.0", "ann.0", "ann.0"]
    assert [gap.step - one.message.step for one in sent if isinstance(one.message, WantHeaders)] == [0, 0, 0, 1]


def test_what_a_chain_that_has_won_has_since_the_chains_parted_is_missing() -> None:
    """The coordinator's own chain was reset, and went on; it is told of the other one by a later session."""
    machine = LogPeer(COORDINATOR, SETTINGS, Believing(), 0.0)
    older = Gap(4, "an older one", 2)
    old = LogPeer(COORDINATOR, SETTINGS, Believing(), 0.0)
    old.backfilling.gaps = [older]
    reset = Reset(50, Ballot(3, COORDINATOR.session))
    machine.backfilling.go_on_from(old.backfilling, header(120, resets=(reset,)))
    machine.backfilling.loads(Chain(ENTRIES[100:]), None)
    assert machine.backfilling.gaps == [older, Gap(99, ENTRIES[99].header.digest, above=49)]


def test_a_coordinator_that_has_opened_another_run_meanwhile_lacks_all_headers() -> None:
    machine = LogPeer(COORDINATOR, SETTINGS, Believing(), 0.0, held=("first", "new"))
    opened = header(7, kind=HeaderKind.GENESIS, snapshot=SnapshotName(7, "first"))  # from a release
    machine.start(Chain([Entry(opened, ENTRIES[0].certificate)]), [SnapshotName(7, "first")])
    machine.backfilling.loads(Chain(ENTRIES[100:]), opened)
    assert machine.backfilling.gaps == [Gap(99, ENTRIES[99].header.digest, above=0)]


def test_a_coordinator_keeps_the_headers_since_its_snapshots_and_those_that_choose_voters() -> None:
    machine = LogPeer(COORDINATOR, SETTINGS, Believing(), 0.0, held=("first", "new"))
    machine.start(Chain(ENTRIES), [SnapshotName(150, "first")])
    machine.log.snapshots = [SnapshotName(150, "first"), SnapshotName(200, "second")]
    machine.snapshot_made(SNAPSHOT, "new", (), 0.0)
    machine.log.forget_old(())
    assert machine.log.chain is not None
    assert machine.log.chain.oldest.step == 150 - quorum.WINDOW


def test_a_peer_that_does_not_have_the_header_says_nothing() -> None:
    giver = LogPeer(ANN, SETTINGS, Believing(), 0.0, held=("first",))
    giver.start(Chain(ENTRIES[:HAD]), [SnapshotName(0, "first")])
    for want in (WantHeaders(2, "another"), WantHeaders(99, ENTRIES[99].header.digest)):
        giver.receive(COORDINATOR.session, want, 1.0)
    assert not [one for one in giver.take_actions() if isinstance(one, Send) and isinstance(one.message, Headers)]


def test_others_keep_a_bounded_number_of_headers() -> None:
    settings = Settings("run", target_samples=10, chunks=0, snapshot_every=100, headers=50)
    machine = LogPeer(ANN, settings, Believing(), 0.0, held=("first", "new"))
    names_it = replace(ENTRIES[-1].header, snapshot=SnapshotName(SNAPSHOT, "new"))
    machine.start(
        Chain([*ENTRIES[:-1], Entry(names_it, ENTRIES[-1].certificate)]), [SnapshotName(SNAPSHOT - 1, "first")]
    )
    machine.snapshot_made(SNAPSHOT, "new", (), 0.0)
    machine.log.forget_old(())
    assert machine.log.chain is not None
    assert machine.log.chain.oldest.step == STEPS - 1 - 50
