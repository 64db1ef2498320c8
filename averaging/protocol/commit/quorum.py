"""The voters on the next header, and how many of them are enough.

Single-decree Paxos for each step (Lamport, "Paxos Made Simple", 2001), chained as Viewstamped Replication and Raft do
it. The quorums are not the usual ones in two ways:

- The coordinator is an acceptor of its own ballots. A header names the session of the coordinator that needs only half
  of the voters: any two of its quorums meet in its own memory, and each of them meets every majority in a voter. A
  coordinator that was restarted is another session. It needs a majority until a committed header names it.
- A voter that has said goodbye is not counted. Its goodbye tells what it promised and accepted, so it is in every first
  phase, and in no second one. Let A be the votes of one ballot and P the promises of a later one, with g and h goodbyes
  shown. If no vote of A is known in the later ballot, A and P are disjoint and lie among the n - max(g, h) voters that
  neither ballot shows a goodbye of; but |A| + |P| > (n - g) / 2 + (n - h) / 2, which is at least as many.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence

from averaging.log.header import Ballot, Entry, Farewell, Header, HeaderKind, Member
from averaging.protocol import credentials as signed
from averaging.protocol.credentials import Credentials
from averaging.protocol.messages import Accepted

MOST_VOTERS = 9
WINDOW = 32  # headers whose credit counts in the choice of voters


def votes_needed(voters: int, breaks_ties: bool) -> int:
    """Of so many voters that have not left, those that a convener needs."""
    return (voters + 1) // 2 if breaks_ties else voters // 2 + 1


def has_quorum(previous: Header, convener: str, votes: Collection[str], goodbyes: Collection[str]) -> bool:
    """Whether these voters are enough for the header after `previous`."""
    left = set(previous.voters) - set(goodbyes)
    return len(left & set(votes)) >= votes_needed(len(left), convener == previous.tie_breaker)


def is_committed(previous: Header, entry: Entry, credentials: Credentials) -> bool:
    """Whether an entry's certificate makes it the one that follows `previous`.

    The convener's vote must be there: if it breaks ties, a quorum without it would not meet the others.
    """
    header, proof = entry.header, entry.certificate
    if (header.step, header.previous) != (previous.step + 1, previous.digest):
        return False
    if header.kind in (HeaderKind.RESET, HeaderKind.ROLLBACK) and not signed.is_ordered(header, credentials):
        return False
    if header.kind is HeaderKind.RESET:
        return True
    said = {one.session: one for one in proof.goodbyes}
    if not _is_signed(previous, entry, said, credentials):
        return False
    return has_quorum(previous, proof.ballot.convener, proof.votes, said)


def _is_signed(previous: Header, entry: Entry, said: Mapping[str, Farewell], credentials: Credentials) -> bool:
    """Whether a certificate's votes and goodbyes are their sessions' own, and the goodbyes may be counted."""
    digest, proof = entry.header.digest, entry.certificate
    if proof.ballot.convener not in proof.votes or len(proof.votes) != len(proof.signatures):
        return False
    if len(proof.votes) > MOST_VOTERS + 1:
        return False
    if len(counted_goodbyes(previous, proof.ballot, said)) != len(proof.goodbyes):
        return False
    return all(
        credentials.verify(session, signed.vote(session, previous.digest, proof.ballot, digest), signature)
        for session, signature in zip(proof.votes, proof.signatures, strict=True)
    ) and all(signed.is_farewell(one, credentials) for one in proof.goodbyes)


def counted_goodbyes(previous: Header, ballot: Ballot, goodbyes: Mapping[str, Farewell]) -> dict[str, Farewell]:
    """The voters on the header after `previous` that have left for good, as a convener with this ballot may count them.

    One that had promised a higher ballot may be in the quorum of that one, so it is not counted.
    """
    return {
        session: goodbye
        for session, goodbye in goodbyes.items()
        if session in previous.voters
        and goodbye.step <= previous.step
        and (goodbye.instance != previous.digest or goodbye.promised is None or goodbye.promised <= ballot)
    }


def highest_accepted(known: Iterable[Accepted | None]) -> Header | None:
    """The header that a convener has to propose again: it may be chosen already."""
    found = [accepted for accepted in known if accepted is not None]
    return max(found, key=lambda accepted: accepted.ballot).header if found else None


def choose_voters(
    members: Collection[Member], recent: Sequence[Header], *, by_past_credit: bool = False
) -> tuple[str, ...]:
    """The voters on the next header: of the members, those with most credit, reachable ones first, one of each user.

    A function of the chain alone, so that those that are asked for their vote compute the same. A voter that has left
    in the round is chosen like the others: its goodbye takes it out of the next decision.

    Args:
        members: that were in the round, so that they were there a moment ago.
        recent: headers before the new one; the last `WINDOW` of them count.
        by_past_credit: what members bring now does not count, and each of them weighs something.
    """
    credit = {member.session: 1 if by_past_credit else member.weight for member in members}
    for header in recent[-WINDOW:]:
        for member in header.members:
            if member.session in credit:
                credit[member.session] += member.weight
    chosen: dict[str, str] = {}  # session by user
    for member in sorted(members, key=lambda one: (not one.reachable, -credit[one.session], one.session)):
        if credit[member.session] and len(chosen) < MOST_VOTERS:
            chosen.setdefault(member.user, member.session)
    return tuple(sorted(chosen.values()))
