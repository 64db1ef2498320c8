"""The header that a convener proposes: pure functions of its situation and of the members of a meeting."""

from collections.abc import Collection, Sequence
from dataclasses import replace

from averaging.log.header import Exclusion, Header, Kind, Member, Part, Reset, SnapshotName
from averaging.protocol.commit import quorum
from averaging.protocol.credentials import ordered
from averaging.protocol.messages import Reduced
from averaging.protocol.rounds.situation import Situation


def update(
    situation: Situation, members: Sequence[Member], coordinators: Collection[str], results: Sequence[Reduced]
) -> Header:
    """What the members have averaged. `results`: one for each part, in the order of the vector."""
    missing = [one for result in results for one in result.missing]
    chunks = sum(len(result.chunks) for result in results)
    lost = {session for session, _ in missing if sum(session == one for one, _ in missing) == chunks}
    members = [_without_gradient(one) if one.session in lost else one for one in members]  # they may bring it again
    return replace(
        _next(situation, coordinators, Kind.UPDATE),
        members=tuple(members),
        parts=tuple(Part(result.assignment.reducer, result.chunks) for result in results),
        exclusions=tuple(Exclusion(session, chunk) for session, chunk in missing if session not in lost),
        voters=quorum.choose_voters(members, situation.recent),
    )


def rollback(situation: Situation, members: Sequence[Member], coordinators: Collection[str], snapshot: str) -> Header:
    """The state of a snapshot, given by its digest, instead of an update."""
    present = [_without_gradient(one) for one in members if one.session not in coordinators]
    header = replace(
        _next(situation, coordinators, Kind.ROLLBACK),
        members=tuple(present),
        snapshot=SnapshotName(situation.previous.step + 1, snapshot),
        voters=quorum.voters_among(present, situation.recent),
    )
    return ordered(header, situation.session.credentials)


def reset(
    situation: Situation, members: Sequence[Member], coordinators: Collection[str], chosen: Header | None
) -> Header:
    """New voters; an update that somebody has accepted is kept."""
    at = Reset(situation.previous.step + 1, situation.ballot)
    present = [one for one in members if one.session not in coordinators]
    header = replace(
        _next(situation, coordinators, Kind.RESET),
        voters=quorum.voters_among(present, situation.recent),
        resets=(*situation.previous.resets, at),
    )
    if chosen is not None:
        header = replace(header, members=chosen.members, parts=chosen.parts, exclusions=chosen.exclusions)
    return ordered(header, situation.session.credentials)


def _without_gradient(member: Member) -> Member:
    return replace(member, buffers=(), weight=0, samples=0, loss=None)


def _next(situation: Situation, coordinators: Collection[str], kind: Kind) -> Header:
    """A header after the previous one, with what all kinds have in common."""
    previous = situation.previous
    if situation.me.is_coordinator:
        coordinators = [situation.me.session]
    return Header(
        run=previous.run,
        step=previous.step + 1,
        kind=kind,
        previous=previous.digest,
        ballot=situation.ballot,
        tie_breaker=max(coordinators, default=previous.tie_breaker),
        snapshot=situation.snapshot,
        resets=previous.resets,
    )
