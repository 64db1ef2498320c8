"""A member with a real pass that lies about the log, or about where it stands, misleads nobody."""

import pytest
from msgspec.structs import replace

from averaging.log.header import (
    Ballot,
    Certificate,
    Entry,
    Farewell,
    Head,
    Member,
    SnapshotName,
)
from averaging.protocol import credentials as signed
from averaging.protocol.actions import Load, Send
from averaging.protocol.catching_up.catching_up import DOUBT, VAIN
from averaging.protocol.catching_up.trust import REMEMBERED
from averaging.protocol.messages import (
    Commit,
    Log,
    Meet,
    Report,
    Status,
)
from tests.averaging.protocol.guarded_run import BOTH, COORDINATOR, SETTINGS, SNAPSHOT, STEPS, VOTERS, Run, asks, told


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
def test_a_newcomer_takes_over_no_made_up_chain(are_checked: bool) -> None:
    run = Run(are_checked)
    entries, name = made_up(run), SnapshotName(0, "eve's state")
    head = entries[-1].header.head
    signed_by_eve = run.anchor(head, by="eve.0", snapshot=name)
    found = told(run.peer("zoe.0"), "eve.0", Log(tuple(entries), name, signed_by_eve))
    assert found == (None if are_checked else head)
    for anchor in (None, run.anchor(run.entries[-1].header.head)):
        assert told(run.peer("zoe.0"), "eve.0", Log(tuple(entries), name, anchor)) is None


def test_a_newcomer_takes_over_the_real_chain_by_the_authoritys_word() -> None:
    run = Run()
    for at in (0, SNAPSHOT, STEPS):
        newcomer = run.peer("zoe.0")
        anchor = run.anchor(run.entries[at].header.head)
        log = Log(tuple(run.entries), SnapshotName(SNAPSHOT, "state"), anchor)
        assert told(newcomer, "eve.0", log) == run.entries[-1].header.head
        assert [one.snapshot for one in newcomer.take_actions() if isinstance(one, Load)] in ([], ["state"])


@BOTH
def test_a_real_chain_is_not_continued_by_votes_that_were_not_given(are_checked: bool) -> None:
    run = Run(are_checked)
    tip = run.entries[-1].header
    header = run.next(tip, "eve.0", members=(Member("eve.0", "eve", (0,), 10**6, True),), voters=("eve.0",))
    ballot = header.ballot
    others = [Farewell(one, tip.digest, tip.step, None) for one in VOTERS[:2]]
    gone = tuple(replace(one, signature=run.of["eve.0"].sign(signed.farewell(one))) for one in others)
    own = run.certificate(header, ballot, ("eve.0",))
    copied = run.entries[-1].certificate.signatures[0]
    forged = {
        "her name under all votes": run.certificate(header, ballot, VOTERS, by="eve.0"),
        "votes for another header": Certificate(ballot, VOTERS, signatures=(copied,) * 3),
        "votes in another ballot": run.certificate(header, Ballot(1, "eve.0"), VOTERS, by="eve.0"),
        "all others have left": replace(own, goodbyes=gone),
    }
    for certificate in forged.values():
        ann = run.peer("ann.0", run.entries)
        ann.receive("eve.0", Commit(Entry(header, certificate)), 1.0)
        assert (ann.head == header.head) == (not are_checked)
        zoe = run.peer("zoe.0")
        entries = (*run.entries, Entry(header, certificate))
        log = Log(entries, SnapshotName(SNAPSHOT, "state"), run.anchor(tip.head))
        assert (told(zoe, "eve.0", log) == header.head) == (not are_checked)


def test_votes_have_signatures_and_the_conveners_is_among_them() -> None:
    run = Run()
    header = run.next(run.entries[-1].header, "eve.0")
    ann = run.peer("ann.0", run.entries)
    ann.receive("eve.0", Commit(Entry(header, Certificate(header.ballot, VOTERS))), 1.0)
    assert ann.head != header.head
    tie, two = Ballot(99, COORDINATOR), Run()
    two.entries = two.following(two.entries, 1, VOTERS[:2], voters=("ann.0", "eve.0"))
    header = two.next(two.entries[-1].header, "eve.0")
    ann = two.peer("ann.0", two.entries)  # of two voters the coordinator needs one, but there has to be its own vote
    ann.receive("eve.0", Commit(Entry(header, two.certificate(header, tie, ("eve.0",)))), 1.0)
    assert ann.head != header.head


def test_a_chain_is_continued_by_votes_that_were_given() -> None:
    run = Run()
    ann = run.peer("ann.0", run.entries)
    entries = run.following(run.entries, 1, ("bob.0", "eve.0"))
    ann.receive("bob.0", Commit(entries[-1]), 1.0)
    assert ann.head == entries[-1].header.head


def test_the_state_of_a_real_chain_is_the_one_that_headers_name() -> None:
    run = Run()
    newcomer = run.peer("zoe.0")
    log = Log(tuple(run.entries), SnapshotName(SNAPSHOT, "eve's state"), run.anchor(run.entries[-1].header.head))
    assert told(newcomer, "eve.0", log) is None


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
    parts = replace(lie, entries=lie.entries[:12], snapshot=None, goes_on=True), replace(lie, entries=lie.entries[4:])
    for heard in (None, newest):
        newcomer = run.peer("zoe.0")
        asks(newcomer, "eve.0", forked[-1].header.head, anchor=heard)
        for part in parts:
            newcomer.receive("eve.0", part, 2.0)
        assert newcomer.head == (forked[-1].header.head if heard is None else None)


def test_malformed_logs_change_nothing() -> None:
    for are_checked in (True, False):  # in the second case the log itself is what is wrong
        run = Run(are_checked)
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
    assert held_up <= (VAIN + 1) * SETTINGS.timeouts.fetch


@pytest.mark.parametrize(("is_ahead", "absences"), [(False, 2), (True, 4)])
def test_a_peer_that_says_to_convene_and_does_not_vote_or_show_it_does_not_keep_voters_from_taking_over(
    is_ahead: bool, absences: int
) -> None:
    run = Run()
    bob = run.peer("bob.0", run.entries)
    head, ahead, asked = run.entries[-1].header.head, Head(STEPS + 1, "f" * 64, run.entries[-1].header.resets), False
    for half in range(int(2 * absences * SETTINGS.timeouts.absence)):  # in which the coordinator and ann say nothing
        now = half / 2
        if half % 10 == 0 or not is_ahead:
            bob.receive("zoe.0", Status(ahead if is_ahead else head, None, convenes=True), now)
        bob.receive("eve.0", Report(head, SETTINGS.target_samples), now)
        bob.tick(now)
        asked |= any(isinstance(one, Send) and isinstance(one.message, Meet) for one in bob.take_actions())
    assert asked
