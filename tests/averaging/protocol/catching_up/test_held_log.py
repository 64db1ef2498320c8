"""What a peer drops when a snapshot is made late, while the next round goes on: nothing that it may have voted for."""

from averaging.log.chain import Chain
from averaging.log.header import Certificate, Entry, Member, Part, SnapshotName
from averaging.protocol.actions import Action, Forget
from averaging.protocol.catching_up.held_log import ROOM, fitting
from averaging.protocol.messages import Accepted, Contact
from averaging.protocol.peer import LogPeer
from averaging.protocol.settings import Settings
from tests.averaging.believing import Believing
from tests.averaging.log.headers import FIRST, header

NAMED = SnapshotName(5, "the snapshot of step 5")


def updates(count: int) -> list[Entry]:
    entries: list[Entry] = []
    for step in range(count):
        previous = entries[-1].header.digest if entries else ""
        parts = (Part("asha.0", (f"update {step}",)),) if step else ()
        newest = NAMED if step > 5 else None
        entries.append(Entry(header(step, previous, parts=parts, snapshot=newest), Certificate(FIRST)))
    return entries


def forgotten(actions: list[Action]) -> set[str]:
    return {digest for action in actions if isinstance(action, Forget) for digest in action.digests}


def test_a_snapshot_drops_what_is_older_and_nothing_of_an_open_round() -> None:
    entries = updates(11)
    voted = {"update 11", "the older snapshot"}  # of a round for the next step; it may as well be a rollback
    held = {f"update {step}" for step in range(1, 11)} | voted | {"chunk of a failed round", "part of a snapshot"}
    peer = LogPeer(Contact("bela.0", "bela", True), Settings("run", 10, 1, 5), Believing(), 0.0, held)
    peer.fetching.made("the older snapshot", ["part of a snapshot"], 0.0)
    peer.fetching.made("the snapshot of step 5", [], 0.0)
    peer.start(Chain(entries), [SnapshotName(0, "the older snapshot"), NAMED])
    peer.take_actions()
    following = header(11, entries[-1].header.digest, parts=(Part("asha.0", tuple(sorted(voted))),), snapshot=NAMED)
    peer.voting.voter.accepted = Accepted(FIRST, following)
    peer.snapshot_made(10, "the newer snapshot", [], 1.0)
    assert not forgotten(peer.take_actions())
    peer._components.apply(Entry(following, Certificate(FIRST)), 2.0)
    # updates since the last snapshot but one may be asked for
    gone = {f"update {step}" for step in range(1, 6)} | {"part of a snapshot"}
    assert forgotten(peer.take_actions()) == gone | {"chunk of a failed round"}
    assert voted <= peer.fetching.held


def test_bytes_that_two_updates_share_are_held_as_long_as_the_later_one() -> None:
    """A reducer that sends an older mean of its part again makes no peer lose what a newcomer needs."""
    entries = updates(10)
    again = header(10, entries[-1].header.digest, parts=entries[2].header.parts, snapshot=NAMED)
    peer = LogPeer(Contact("bela.0", "bela", True), Settings("run", 10, 1, 5), Believing(), 0.0, again.chunks)
    peer.start(Chain(entries), [SnapshotName(0, "the older snapshot"), NAMED])
    peer._components.apply(Entry(again, Certificate(FIRST)), 1.0)
    peer.snapshot_made(10, "the newer snapshot", [], 1.0)
    peer._components.apply(Entry(header(11, again.digest, snapshot=NAMED), Certificate(FIRST)), 2.0)
    assert peer.fetching.holds(again.chunks)
    assert peer.log._updates.keys() == set(range(6, 12))


def test_a_state_that_is_wanted_back_is_kept_with_its_chunks_over_a_new_session() -> None:
    held, settings = {"older", "its chunk"}, Settings("run", 10, 1, 5)
    old, new = (
        LogPeer(Contact(f"coordinator.{n}", "coordinator", True, True), settings, Believing(), 0.0, held)
        for n in range(2)
    )
    old.roll_back("older", ["its chunk"], 0.0)
    new.rejoin(None, old, 1.0)
    new.start(Chain(updates(3)), [SnapshotName(0, "first")])
    new.log.forget_old(())
    assert new.fetching.holds(held)


def test_an_answer_has_as_many_entries_as_fit_into_a_message_and_at_least_one() -> None:
    long = [Member(f"{number:060}.0", "a user", tuple(range(10_000)), 1, True) for number in range(40)]
    entry = Entry(header(1, members=tuple(long)), Certificate(FIRST))
    size = len(entry.header.encoded)
    assert len(fitting([entry] * 64)) == ROOM // size < 64
    assert len(fitting(updates(11))) == 11
    longer = Entry(header(1, members=tuple(long) * (ROOM // size + 1)), Certificate(FIRST))
    assert fitting([longer, longer]) == [longer]
