"""A run with three voters, one of whom may lie, its chain, and what a machine is told of it."""

from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from averaging.log.chain import Chain
from averaging.log.header import (
    Ballot,
    Certificate,
    Entry,
    Head,
    Header,
    HeaderKind,
    Member,
    Part,
    SnapshotName,
)
from averaging.protocol import credentials as signed
from averaging.protocol.actions import Send
from averaging.protocol.messages import (
    Anchor,
    Contact,
    Log,
    Status,
    WantLog,
)
from averaging.protocol.peer import LogPeer
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

    def __init__(self, are_checked: bool = True):
        self.signatures = Signatures(are_checked)
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
            HeaderKind.GENESIS,
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
            HeaderKind.UPDATE,
            previous.digest,
            Ballot(step, convener),
            voters=VOTERS,
            tie_breaker=COORDINATOR,
            resets=previous.resets,
        )
        return replace(header, **{**plain, **fields})

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

    def peer(self, session: str, has: Sequence[Entry] = (), knows: Sequence[str] = ()) -> LogPeer:
        """That has a chain, and is connected to others."""
        machine = LogPeer(self.contacts[session], SETTINGS, self.of[session], 0.0, EVERYTHING)
        if has:
            machine.start(Chain(has), [SnapshotName(0, "first"), SnapshotName(SNAPSHOT, "state")])
        machine.contacts([self.contacts[one] for one in (knows or self.contacts)], 0.0)
        machine.take_actions()
        return machine


def asks(machine: LogPeer, session: str, head: Head, now: float = 1.0, anchor: Anchor | None = None) -> None:
    """Have the machine ask a session for its log."""
    machine.receive(session, Status(head, None, convenes=False, anchor=anchor), now)
    for _ in range(20):
        actions = machine.take_actions()
        if any(isinstance(one, Send) and one.to == session and isinstance(one.message, WantLog) for one in actions):
            return
        now += 0.5
        machine.tick(now)
    raise AssertionError(f"{session} was not asked")


def told(machine: LogPeer, session: str, log: Log, now: float = 1.0, heard: Anchor | None = None) -> Head | None:
    """Where the machine stands after a session has told its log; the chunks are here."""
    asks(machine, session, log.entries[-1].header.head, now, heard)
    machine.receive(session, log, now + 0.1)
    return machine.head


BOTH = pytest.mark.parametrize("are_checked", [True, False], ids=["checked", "unchecked"])
