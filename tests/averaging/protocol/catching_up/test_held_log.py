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


def updates(count: int) -> list[Entry]:
    entries: list[Entry] = []
    for step in range(count):
        previous = entries[-1].header.digest if entries else ""
        parts = (Part("asha.0", (f"update {step}",)),) if step else ()
        newest = SnapshotName(5, "the snapshot of step 5") if step > 5 else None
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
    peer.start(Chain(entries), [SnapshotName(0, "the older snapshot"), SnapshotName(5, "the snapshot of step 5")])
    peer.take_actions()
    following = header(11, entries[-1].header.digest, parts=(Part("asha.0", tuple(sorted(voted))),))
    peer.voting.voter.accepted = Accepted(FIRST, following)
    peer.snapshot_made(10, "the newer snapshot", [], 1.0)
    # updates since the last snapshot but one may be asked for
    assert forgotten(peer.take_actions()) == {f"update {step}" for step in range(1, 6)}
    assert voted | {"chunk of a failed round", "part of a snapshot"} <= peer.fetching.held
    peer._components.apply(Entry(following, Certificate(FIRST)), 2.0)
    assert "chunk of a failed round" in forgotten(peer.take_actions())
    assert voted <= peer.fetching.held


def test_an_answer_has_as_many_entries_as_fit_into_a_message_and_at_least_one() -> None:
    long = [Member(f"{number:060}.0", "a user", tuple(range(10_000)), 1, True) for number in range(40)]
    entry = Entry(header(1, members=tuple(long)), Certificate(FIRST))
    size = len(entry.header.encoded)
    assert len(fitting([entry] * 64)) == ROOM // size < 64
    assert len(fitting(updates(11))) == 11
    longer = Entry(header(1, members=tuple(long) * (ROOM // size + 1)), Certificate(FIRST))
    assert fitting([longer, longer]) == [longer]
