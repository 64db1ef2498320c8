"""What conveners tell of their groups is credited once it is on the disk, whoever of the members is still there."""

from msgspec.structs import replace

from averaging.log.header import Ballot, Certificate, Entry, HeaderKind, peer_of
from averaging.moshpit.group_keys import GroupSettings
from averaging.moshpit.peer import GroupPeer
from averaging.protocol.actions import Action, Credit, Send
from averaging.protocol.messages import Commit, Contact, Goodbye, Vote
from averaging.protocol.settings import Settings
from tests.averaging.log.headers import header, member
from tests.simulation.signatures import Credentials, Signatures

SETTINGS = Settings("run", target_samples=10, chunks=1, snapshot_every=10)
SIGNATURES = Signatures()


def peer(session: str, *, is_coordinator: bool = False) -> GroupPeer:
    user = peer_of(session)
    me = Contact(session, user, reachable=True, is_coordinator=is_coordinator)
    credentials = Credentials(SIGNATURES, me)
    made = GroupPeer(credentials.introduced(me), SETTINGS, credentials, GroupSettings(4, None, 10), 0.0)
    made.begin(0)
    return made


def commits(actions: list[Action]) -> list[Commit]:
    return [one.message for one in actions if isinstance(one, Send) and isinstance(one.message, Commit)]


def votes(actions: list[Action]) -> list[str]:
    return [one.message.digest for one in actions if isinstance(one, Send) and isinstance(one.message, Vote)]


def averaged(*sessions: str) -> Entry:
    """By the first of them."""
    ballot = Ballot(0, sessions[0])
    members = tuple(member(one, 5, peer_of(one)) for one in sorted(sessions))
    return Entry(header(1, kind=HeaderKind.GROUP, ballot=ballot, members=members), Certificate(ballot))


def test_a_coordinator_answers_when_the_header_is_on_its_disk() -> None:
    ann, bob, coordinator = peer("ann.0"), peer("bob.0"), peer("coordinator.0", is_coordinator=True)
    coordinator.contacts([ann.me, bob.me], 0.0)
    entry = averaged("ann.0", "bob.0")
    coordinator.take_actions()
    for _ in range(2):  # it is sent again meanwhile
        coordinator.receive("ann.0", Commit(entry), 1.0)
    actions = coordinator.take_actions()
    assert [one for one in actions if isinstance(one, Credit)] == [Credit((entry,))] and not votes(actions)
    coordinator.credited([entry])
    assert votes(coordinator.take_actions()) == [entry.header.digest]
    coordinator.receive("ann.0", Commit(entry), 2.0)
    assert votes(coordinator.take_actions()) == [entry.header.digest]  # the first one may have been lost


def test_what_no_member_can_have_is_not_credited() -> None:
    ann, bob, coordinator = peer("ann.0"), peer("bob.0"), peer("coordinator.0", is_coordinator=True)
    coordinator.contacts([ann.me, bob.me], 0.0)
    entry = averaged("ann.0", "bob.0")
    one, other = entry.header.members
    for false in (replace(other, loss=9e18), replace(other, buffers=()), one):
        coordinator.receive("ann.0", Commit(replace(entry, header=replace(entry.header, members=(one, false)))), 1.0)
        assert not any(isinstance(done, Credit) for done in coordinator.take_actions())


def test_a_coordinator_that_has_begun_again_credits_members_that_have_left() -> None:
    ann, bob = peer("ann.0"), peer("bob.0")
    again = peer("coordinator.1", is_coordinator=True)
    entry = averaged("ann.0", "bob.0")
    ann.contacts([bob.me], 0.0)
    ann._crediting.add(entry)
    bob.contacts([ann.me], 0.0)
    bob.leave()
    goodbye = next(one.message for one in bob.take_actions() if isinstance(one, Send))
    assert isinstance(goodbye, Goodbye)
    ann.receive("bob.0", goodbye, 1.0)
    ann.contacts([again.me], 20.0)
    (told,) = commits(ann.take_actions())
    assert told.contacts == (bob.me,)
    again.contacts([ann.me], 20.0)
    for forged in ((), (replace(bob.me, proof=b"forged"),), (replace(bob.me, user="eve"),)):
        again.receive("ann.0", Commit(entry, forged), 21.0)
        assert not any(isinstance(one, Credit) for one in again.take_actions()), "it cannot know who that is"
    again.receive("ann.0", told, 22.0)
    assert Credit((entry,)) in again.take_actions()
