"""Members that lie about the log: where it stands, what was committed, who has left, and what they bring."""

from collections.abc import Iterable
from typing import Any

from msgspec.structs import replace

from averaging.log.header import Ballot, Certificate, Entry, Farewell, Head, Header, HeaderKind, Reset, SnapshotName
from averaging.log.header import Member as Brought
from averaging.protocol import credentials as signed
from averaging.protocol.messages import (
    Anchor,
    Call,
    Chunk,
    Commit,
    Contact,
    Goodbye,
    Log,
    Meet,
    Message,
    Offer,
    Plan,
    Propose,
    Refused,
    Report,
    Status,
    Want,
    WantLog,
)
from tests.access.attackers.credentials import Scene
from tests.access.attackers.member import Member

LIES_LAST = 36.0  # seconds: some global steps, on a slow machine too
FAR = 10**6  # steps, and samples, that no honest peer tells of
NOTHING = "0" * 64  # digest of what no peer has


async def ahead(scene: Scene) -> dict[str, Any]:
    """A member that says to be far ahead, to convene and to have gathered everything, and shows false logs."""
    member = await Member.enter(scene, "braggart")
    real = await member.log()
    log = made_up(member, real)
    head = log.entries[-1].header.head

    def answers(sender: str, message: Message) -> Iterable[Message]:
        if isinstance(message, WantLog):
            yield from (log, replace(log, snapshot=None), replace(real, snapshot=log.snapshot))
        elif isinstance(message, Want):
            yield from map(Chunk, message.digests)

    def says(others: list[Contact]) -> Iterable[tuple[str, Message]]:
        anchor = own_anchor(member, head)
        for one in others:
            yield one.session, Status(head, None, convenes=True, gathered=FAR, anchor=anchor)
            yield one.session, Status(Head(FAR, NOTHING), Ballot(2**62, member.session), convenes=True)
            yield one.session, Report(Head(FAR, NOTHING), FAR)

    member.answers = answers
    await member.lie(LIES_LAST, says)
    asked = sum(isinstance(message, WantLog) for _, message in member.heard)
    return {"session": member.session, "asked": asked}


async def forger(scene: Scene) -> dict[str, Any]:
    """A member that forges votes, goodbyes, resets and rollbacks, and proposes in its own interest."""
    member = await Member.enter(scene, "forger")
    tip = (await member.log()).entries[-1].header
    told = 0

    def answers(sender: str, message: Message) -> Iterable[Message]:
        nonlocal tip
        if isinstance(message, Commit):
            tip = message.entry.header
        elif isinstance(message, Meet):
            yield Refused(message.ballot, Ballot(2**62, member.session))

    def says(others: list[Contact]) -> Iterable[tuple[str, Message]]:
        nonlocal told
        entries = [forged(member, tip, kind) for kind in (HeaderKind.UPDATE, HeaderKind.ROLLBACK, HeaderKind.RESET)]
        for one in others:
            for entry in entries:
                told += 1
                yield one.session, Commit(entry)
                yield one.session, Propose(entry.header.ballot, entry.header, (member.contact,))
            for other in others:
                yield one.session, goodbye_of(member, other.session, tip)
            leap = Ballot(2**62, member.session)
            yield one.session, Meet(tip.digest, leap)
            yield one.session, Plan(tip.digest, leap, (), ())

    member.answers = answers
    await member.lie(LIES_LAST, says)
    return {"session": member.session, "told": told}


async def freeloader(scene: Scene) -> dict[str, Any]:
    """A member that calls with more samples than all others, and sends no gradient."""
    member = await Member.enter(scene, "freeloader")
    number, called = 0, 0

    def answers(sender: str, message: Message) -> Iterable[Message]:
        nonlocal number, called
        if isinstance(message, Meet):
            number, called = number + 1, called + 1
            offer = Offer(number, weight=FAR, samples=FAR, loss=float(FAR))
            yield Call(message.instance, message.ballot, (offer,), None)
        elif isinstance(message, Status) and message.convenes and message.head is not None:
            yield Report(message.head, FAR)

    member.answers = answers
    await member.lie(LIES_LAST, lambda others: [(one.session, Report(None, FAR)) for one in others])
    return {"session": member.session, "called": called}


def made_up(member: Member, real: Log) -> Log:
    """The run's log with some more headers for which no voter has voted, and a state that is the liar's own."""
    entries = list(real.entries)
    for _ in range(20):
        entries.append(forged(member, entries[-1].header, HeaderKind.UPDATE))
    snapshot = SnapshotName(entries[-1].header.step, NOTHING)
    return Log(tuple(entries), snapshot, own_anchor(member, entries[-1].header.head))


def forged(member: Member, previous: Header, kind: HeaderKind) -> Entry:
    """An entry that gives all power to the liar, with its own signature for the votes of others."""
    ballot = Ballot(previous.ballot.number + 1, member.session)
    at = (Reset(previous.step + 1, ballot),) if kind is HeaderKind.RESET else ()
    header = Header(
        previous.run,
        previous.step + 1,
        kind,
        previous.digest,
        ballot,
        members=(Brought(member.session, member.contact.user, (1,), FAR, True, samples=FAR),),
        parts=previous.parts,
        voters=(member.session,),
        tie_breaker=member.session,
        snapshot=SnapshotName(previous.step + 1, NOTHING) if kind is HeaderKind.ROLLBACK else previous.snapshot,
        resets=(*previous.resets, *at),
    )
    header = replace(header, order=member.credentials.sign(signed.order(header)))
    voters = (*previous.voters, member.session)
    votes = tuple(member.credentials.sign(signed.vote(one, previous.digest, ballot, header.digest)) for one in voters)
    return Entry(header, Certificate(ballot, voters, signatures=votes))


def own_anchor(member: Member, head: Head) -> Anchor:
    """A head that the liar has signed in place of the authority."""
    return Anchor(head, None, member.credentials.sign(signed.head(head, None)))


def goodbye_of(member: Member, session: str, tip: Header) -> Goodbye:
    """Of another session, which has not left."""
    said = Farewell(session, tip.digest, tip.step, None)
    return Goodbye(signed.signed_farewell(said, member.credentials), None)
