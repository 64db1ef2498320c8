"""Conveners that propose in their own interest get no votes; nobody objects for not knowing something."""

import dataclasses

import pytest
from msgspec.structs import replace

from averaging.log.chain import Chain
from averaging.log.header import Ballot, Exclusion, Farewell, Header, HeaderKind, Part, Reset, SnapshotName
from averaging.protocol.actions import Send
from averaging.protocol.buffers import Buffers
from averaging.protocol.commit import quorum
from averaging.protocol.commit.objections import objection
from averaging.protocol.contacts import Contacts
from averaging.protocol.messages import Accepted, Call, Contact, Goodbye, Log, Meet, Propose, Vote
from averaging.protocol.peer import LogPeer
from averaging.protocol.settings import Settings
from tests.averaging.believing import Believing
from tests.averaging.log.headers import chain_of, header, member

ME = Contact("me.0", "me", reachable=True)
COORDINATOR = Contact("coordinator.0", "coordinator", reachable=True, is_coordinator=True)
OTHERS = [Contact(f"{name}.0", name, reachable=True) for name in ("ann", "bob", "eve")]
PARTS = (Part("ann.0", ("x", "y")), Part("bob.0", ("z",)))
RECENT = [
    entry.header
    for entry in chain_of(3, members=(member("ann.0", 5, "ann"),), voters=("ann.0",), tie_breaker="coordinator.0")
]
MEMBERS = (member("ann.0", 5, "ann"), member("eve.0", 4, "eve"), replace(member("me.0", 7, "me"), samples=2))
SETTINGS = Settings("run", target_samples=3, chunks=3, snapshot_every=1, most_masked=20)
SNAPSHOTS = [SnapshotName(1, "the state that I had")]


def honest(**fields: object) -> Header:
    """What a convener proposes; changed like this, with the voters that follow unless they are given."""
    members = fields.get("members", MEMBERS)
    plain = {
        "members": members,
        "parts": PARTS,
        "tie_breaker": "coordinator.0",
        "voters": quorum.choose_voters(members, RECENT),  # type: ignore[arg-type]
    }
    return header(3, RECENT[-1].digest, **{**plain, **fields})


def objected(proposed: Header, recent: list[Header] = RECENT, settings: Settings = SETTINGS) -> str:
    contacts, buffers = Contacts(ME, Believing()), Buffers()
    contacts.listed([COORDINATOR, *OTHERS])
    buffers.add(7, samples=2)
    buffers.offer()
    return objection(proposed, recent, settings, contacts, buffers.closed, SNAPSHOTS, Believing())


def test_nothing_is_to_be_said_against_honest_headers() -> None:
    assert objected(honest()) == ""
    assert objected(honest(snapshot=SnapshotName(1, "the state that I had"))) == ""
    assert objected(honest(exclusions=(Exclusion("eve.0", (2,)),))) == ""
    assert objected(honest(parts=(replace(PARTS[0], loud=(("eve.0", 9.5),)), PARTS[1]))) == ""
    assert objected(honest(parts=(replace(PARTS[0], loud=(("eve.0", 9.5),)), PARTS[1]))) == ""
    present = tuple(replace(one, buffers=(), weight=0, samples=0) for one in MEMBERS)
    back = honest(
        kind=HeaderKind.ROLLBACK,
        ballot=Ballot(3, "coordinator.0"),
        members=present,
        parts=(),
        snapshot=SnapshotName(3, "an old state"),
        voters=quorum.choose_voters(present, RECENT, by_past_credit=True),
    )
    assert objected(back) == ""


def test_a_snapshot_is_of_a_step_that_has_one() -> None:
    every_other = dataclasses.replace(SETTINGS, snapshot_every=2)
    assert "every 2 steps" in objected(honest(snapshot=SnapshotName(1, "the state that I had")), settings=every_other)
    assert objected(honest(snapshot=SnapshotName(2, "a state that I never had")), settings=every_other) == ""


def test_a_peer_that_does_not_know_does_not_object() -> None:
    weightless = (*MEMBERS, replace(member("zoe.0", 0, "zoe"), buffers=()))
    assert objected(honest(members=weightless)) == ""
    assert objected(honest(snapshot=SnapshotName(2, "a state that I never had"))) == ""
    assert objected(honest(voters=("ann.0",)), RECENT[1:]) == ""  # it lacks headers whose credit counts


@pytest.mark.parametrize(
    ("lie", "what"),
    [
        ({"run": "another"}, "does not follow"),
        ({"step": 4}, "does not follow"),
        ({"previous": "another"}, "does not follow"),
        ({"resets": (Reset(3, Ballot(9, "eve.0")),)}, "does not follow"),
        ({"kind": HeaderKind.RESET}, "not voted for"),
        ({"kind": HeaderKind.GENESIS}, "not voted for"),
        ({"voters": ("eve.0",)}, "its voters are"),
        ({"voters": ()}, "its voters are"),
        ({"members": (*MEMBERS, member("me.0", 7, "me"))}, "each once"),
        ({"members": (member("ann.0", 5, "ann"), member("eve.0", 4, "one more user"))}, "belongs to eve"),
        ({"members": (member("ann.0", 5, "ann"), member("me.0", 6, "me"))}, "than it has offered"),
        ({"members": (member("ann.0", 5, "ann"), replace(MEMBERS[2], buffers=(3,)))}, "than it has offered"),
        ({"members": (member("ann.0", 5, "ann"), replace(MEMBERS[1], buffers=()))}, "without gradients"),
        ({"members": (MEMBERS[0], replace(MEMBERS[1], loss=1e18), MEMBERS[2])}, "eve.0 has a loss of"),
        ({"members": (MEMBERS[0], replace(MEMBERS[1], samples=13), MEMBERS[2])}, "cannot have 13 samples"),
        ({"members": (MEMBERS[0], replace(MEMBERS[1], samples=-1), MEMBERS[2])}, "cannot have -1 samples"),
        ({"members": (MEMBERS[0], replace(MEMBERS[1], samples=2, weight=41), MEMBERS[2])}, "with 41 masked tokens"),
        ({"members": (MEMBERS[0], replace(MEMBERS[1], weight=-1), MEMBERS[2])}, "with -1 masked tokens"),
        ({"members": (*MEMBERS[:2], replace(MEMBERS[2], samples=3))}, "than it has offered"),
        ({"members": (*MEMBERS, member("zoe.0", 12, "somebody made up"))}, "zoe.0 is not known"),
        ({"tie_breaker": "coordinator.1"}, "coordinator.1 is not known"),
        ({"tie_breaker": "eve.0"}, "eve.0 is not the coordinator"),
        ({"parts": PARTS[:1]}, "2 of 3 chunks"),
        ({"exclusions": (Exclusion("zoe.0", (1,)),)}, "was not there"),
        ({"exclusions": (Exclusion("eve.0", (3,)),)}, "was not there"),
        ({"exclusions": (Exclusion("eve.0", (2, 1)),)}, "was not there"),
        ({"exclusions": (Exclusion("eve.0", ()),)}, "was not there"),
        ({"exclusions": (Exclusion("eve.0", (1,)),) * 2}, "was not there"),
        ({"parts": (replace(PARTS[0], loud=(("zoe.0", 5.0),)), PARTS[1])}, "loud"),
        ({"parts": (replace(PARTS[0], loud=(("eve.0", 5.0),) * 2), PARTS[1])}, "loud"),
        ({"parts": (replace(PARTS[0], loud=(("eve.0", float("nan")),)), PARTS[1])}, "loud"),
        ({"on_probation": ("zoe",)}, "not among its members"),
        ({"on_probation": ("me", "eve")}, "not among its members"),
        ({"on_probation": ("eve", "eve")}, "not among its members"),
        ({"members": ()}, "nobody has brought"),
        ({"snapshot": SnapshotName(1, "a poisoned state")}, "another snapshot of step 1"),
        ({"snapshot": SnapshotName(3, "a state to come")}, "it names"),
    ],
)
def test_a_convener_that_lies_is_found_out(lie: dict[str, object], what: str) -> None:
    members = {"members": lie["members"]} if "members" in lie else {}
    assert what in objected(replace(honest(**members), **lie))


def test_a_contact_that_comes_with_a_proposal_is_evidence() -> None:
    machine = peer()
    members = (member("ann.0", 5, "ann"), member("zoe.0", 9, "zoe"))
    proposed = replace(proposals(machine)[0], members=members, voters=("ann.0", "zoe.0"))
    zoe = Contact("zoe.0", "zoe", reachable=True)
    for shown, votes in (((), 0), ((zoe,), 1)):
        message = Propose(Ballot(1, "eve.0"), proposed, shown)
        machine.receive("eve.0", message, 1.0)
        sent = [one.message for one in machine.take_actions() if isinstance(one, Send)]
        assert sum(isinstance(one, Vote) for one in sent) == votes


def test_nobody_but_the_coordinator_rolls_back() -> None:
    stolen = honest(kind=HeaderKind.ROLLBACK, ballot=Ballot(3, "eve.0"), members=(), parts=(), voters=(),
                    snapshot=SnapshotName(3, "an old state"))  # fmt: skip
    assert objected(stolen) == "eve.0 is not the coordinator"


def peer() -> LogPeer:
    """A voter that holds all chunks of what is proposed below."""
    machine = LogPeer(ME, SETTINGS, Believing(), 0.0, held=("x", "y", "z", "old"))
    voters = ("ann.0", "bob.0", "me.0")
    entries = chain_of(3, members=(member("ann.0", 5, "ann"),), voters=voters, tie_breaker="coordinator.0")
    machine.start(Chain(entries), [SnapshotName(0, "old")])
    machine.contacts([COORDINATOR, *OTHERS], 0.0)
    machine.take_actions()
    return machine


def proposals(machine: LogPeer) -> tuple[Header, Header]:
    """An honest header after its newest one, and the same with friends for voters."""
    members = (member("ann.0", 5, "ann"), member("eve.0", 4, "eve"))
    tip = machine.log.tip
    good = header(3, tip.digest, members=members, parts=PARTS, tie_breaker="coordinator.0",
                  ballot=Ballot(1, "eve.0"), voters=("ann.0", "eve.0"))  # fmt: skip
    return good, replace(good, voters=("eve.0",))


def test_a_voter_votes_for_what_follows_and_for_nothing_else() -> None:
    machine = peer()
    good, bad = proposals(machine)
    for proposed, sender, votes in ((bad, "eve.0", 0), (good, "bob.0", 0), (good, "eve.0", 1)):
        machine.receive(sender, Propose(Ballot(1, "eve.0"), proposed), 1.0)
        sent = [one.message for one in machine.take_actions() if isinstance(one, Send)]
        assert sum(isinstance(message, Vote) for message in sent) == votes


@pytest.mark.parametrize("says_goodbye", [False, True])
def test_a_convener_proposes_no_header_again_that_cannot_be_right(says_goodbye: bool) -> None:
    """One voter that lies about what it has accepted must not stop the others for ever."""
    machine = peer()
    good, bad = proposals(machine)
    machine.computed(20, 1.0, samples=10)
    for now in range(2, 40):  # nobody else convenes
        machine.tick(float(now))
        if machine.convening.round is not None:
            break
    current = machine.convening.round
    assert current is not None
    said = Accepted(Ballot(8, "eve.0"), bad)
    if says_goodbye:
        machine.receive("ann.0", Goodbye(Farewell("ann.0", good.previous, 2, None), said), float(now))
    else:
        machine.receive("ann.0", Call(good.previous, current.ballot, (), said), float(now))
    assert not current.meeting.has_promises  # neither a promise nor one voter fewer
    told = Accepted(Ballot(7, "eve.0"), good)
    machine.receive("bob.0", Call(good.previous, current.ballot, (), told), float(now))
    assert current.header == good


def test_a_peer_without_a_state_answers_conveners() -> None:
    machine = LogPeer(ME, SETTINGS, Believing(), 0.0)
    machine.receive("eve.0", Propose(Ballot(1, "eve.0"), honest()), 1.0)
    machine.receive("eve.0", Meet("somewhere", Ballot(1, "eve.0")), 1.0)
    machine.receive("eve.0", Log((), None), 1.0)
    assert not any(isinstance(one, Send) and isinstance(one.message, Vote) for one in machine.take_actions())
