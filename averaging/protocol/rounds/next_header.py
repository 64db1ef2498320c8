"""The header that a convener proposes: pure functions of a meeting, its situation and its members."""

from collections.abc import Sequence
from dataclasses import replace

from averaging.log.header import Exclusion, Header, Kind, Member, Part, Reset, SnapshotName
from averaging.protocol.commit import quorum
from averaging.protocol.credentials import ordered
from averaging.protocol.messages import Reduced
from averaging.protocol.rounds.meeting import Meeting


def update(meeting: Meeting, results: Sequence[Reduced]) -> Header:
    """What the members have averaged. `results`: one for each part, in the order of the vector."""
    missing = [one for result in results for one in result.missing]
    chunks = sum(len(result.chunks) for result in results)
    lost = {session for session, _ in missing if sum(session == one for one, _ in missing) == chunks}
    # those that are lost may bring it again
    members = [_without_gradient(one) if one.session in lost else one for one in meeting.members]
    return replace(
        _next(meeting, Kind.UPDATE),
        members=tuple(members),
        parts=tuple(Part(result.assignment.reducer, result.chunks) for result in results),
        exclusions=tuple(Exclusion(session, chunk) for session, chunk in missing if session not in lost),
        voters=quorum.choose_voters(members, meeting.situation.recent),
    )


def rollback(meeting: Meeting, snapshot: str) -> Header:
    """The state of a snapshot, given by its digest, instead of an update."""
    situation = meeting.situation
    present = [_without_gradient(one) for one in _others(meeting)]
    header = replace(
        _next(meeting, Kind.ROLLBACK),
        members=tuple(present),
        snapshot=SnapshotName(situation.previous.step + 1, snapshot),
        voters=quorum.voters_among(present, situation.recent),
    )
    return ordered(header, situation.session.credentials)


def reset(meeting: Meeting, chosen: Header | None) -> Header:
    """New voters; an update that somebody has accepted is kept."""
    situation = meeting.situation
    header = replace(
        _next(meeting, Kind.RESET),
        voters=quorum.voters_among(_others(meeting), situation.recent),
        resets=(*situation.previous.resets, Reset(situation.previous.step + 1, situation.ballot)),
    )
    if chosen is not None:
        header = replace(header, members=chosen.members, parts=chosen.parts, exclusions=chosen.exclusions)
    return ordered(header, situation.session.credentials)


def _others(meeting: Meeting) -> list[Member]:
    """Members that are no coordinators."""
    return [one for one in meeting.members if not meeting.contacts[one.session].is_coordinator]


def _without_gradient(member: Member) -> Member:
    return replace(member, buffers=(), weight=0, samples=0, loss=None)


def _next(meeting: Meeting, kind: Kind) -> Header:
    """A header after the previous one, with what all kinds have in common."""
    situation, previous = meeting.situation, meeting.situation.previous
    coordinators = [situation.me.session] if situation.me.is_coordinator else meeting.coordinators
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
