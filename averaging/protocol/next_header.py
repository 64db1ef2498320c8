"""The header that a convener proposes: pure functions of its situation and of the calls of a meeting."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from averaging.log.header import Exclusion, Header, Kind, Member, Part, Reset, SnapshotName
from averaging.protocol import quorum
from averaging.protocol.messages import Call, Reduced
from averaging.protocol.situation import Situation


def update(situation: Situation, calls: Mapping[str, Call], results: Sequence[Reduced]) -> Header:
    """What the members have averaged. `results`: one for each part, in the order of the vector."""
    missing = [one for result in results for one in result.missing]
    chunks = sum(len(result.chunks) for result in results)
    lost = {session for session, _ in missing if sum(session == one for one, _ in missing) == chunks}
    members = tuple(
        replace(member, buffers=(), weight=0) if member.session in lost else member  # it may bring them again
        for member in _members(situation, calls)
    )
    return replace(
        _next(situation, calls, Kind.UPDATE),
        members=members,
        parts=tuple(Part(result.assignment.reducer, result.chunks) for result in results),
        exclusions=tuple(Exclusion(session, chunk) for session, chunk in missing if session not in lost),
        voters=quorum.choose_voters(members, situation.recent, situation.goodbyes),
    )


def rollback(situation: Situation, calls: Mapping[str, Call], snapshot: str) -> Header:
    """The state of a snapshot, given by its digest, instead of an update."""
    return replace(
        _next(situation, calls, Kind.ROLLBACK),
        snapshot=SnapshotName(situation.previous.step + 1, snapshot),
        voters=_present(situation, calls),
    )


def reset(situation: Situation, calls: Mapping[str, Call], chosen: Header | None) -> Header:
    """New voters; an update that somebody has accepted is kept."""
    at = Reset(situation.previous.step + 1, situation.ballot)
    kept = {} if chosen is None else {"members": chosen.members, "parts": chosen.parts, "exclusions": chosen.exclusions}
    return replace(
        _next(situation, calls, Kind.RESET),
        voters=_present(situation, calls),
        resets=(*situation.previous.resets, at),
        **kept,  # type: ignore[arg-type]
    )


def _members(situation: Situation, calls: Mapping[str, Call]) -> tuple[Member, ...]:
    """All that called, with what they bring."""
    found = []
    for session, call in sorted(calls.items()):
        contact = situation.contact(session)
        numbers = tuple(number for number, _ in call.buffers)
        weight = sum(weight for _, weight in call.buffers)
        found.append(Member(session, contact.user, numbers, weight, contact.reachable))
    return tuple(found)


def _next(situation: Situation, calls: Mapping[str, Call], kind: Kind) -> Header:
    """A header after the previous one, with what all kinds have in common."""
    previous = situation.previous
    coordinators = [one for one in calls if situation.contact(one).is_coordinator]
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


def _present(situation: Situation, calls: Mapping[str, Call]) -> tuple[str, ...]:
    """Voters by past credit, of those that are here, without a round: all weigh at least something."""
    members = [
        replace(member, weight=1)
        for member in _members(situation, calls)
        if not situation.contact(member.session).is_coordinator
    ]
    return quorum.choose_voters(members, situation.recent, situation.goodbyes)
