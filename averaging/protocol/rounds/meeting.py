"""The first phase of a ballot: peers call, which says what they bring, and is the promise of voters.

What headers may come of it: pure functions of its situation and its members.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from averaging.log.header import (
    MOST_RESETS,
    Ballot,
    Exclusion,
    Header,
    HeaderKind,
    Member,
    Part,
    Reset,
    SnapshotName,
    exclusions_of,
    plausible,
)
from averaging.protocol.commit import quorum
from averaging.protocol.commit.objections import LARGEST_LOSS
from averaging.protocol.contacts import Contacts
from averaging.protocol.credentials import ordered
from averaging.protocol.messages import Accepted, Bandwidth, Call, Contact, Goodbye, Meet, Offer, Plan, Reduced
from averaging.protocol.rounds.reliability import Patience
from averaging.protocol.session import Session

LINES = 1e-3, 1e6  # Mbit/s that plans reckon with
SPEEDS = 1e-3, 1e9  # and samples a second


@dataclass(frozen=True)
class Situation:
    """What a convener knows when it begins a ballot."""

    session: Session
    contacts: Contacts  # which go on changing
    ballot: Ballot
    previous: Header
    recent: Sequence[Header]  # the last ones, for the choice of voters
    patience: Patience
    awaited: frozenset[str]  # peers for which the meeting stays open
    doubtful: frozenset[str] = frozenset()  # for which it does so while the others have not brought the batch
    snapshot: SnapshotName | None = None  # the newest that there is
    rollback: str | None = None  # digest of the snapshot that the authority wants back
    ignored: frozenset[str] = frozenset()  # users whose samples do not count towards the batch
    may_reset: bool = False  # the quorum has been missing for so long that the coordinator may name new voters

    @property
    def me(self) -> Contact:
        """The convener."""
        return self.session.me

    def contact(self, session: str) -> Contact:
        """A peer, as far as the convener knows it."""
        return self.contacts.get(session) or Contact(session, user=session, reachable=False)


class Meeting:
    """The calls of one ballot, and the headers that may come of them. `objection`: see `Voting`."""

    def __init__(self, situation: Situation, objection: Callable[[Header], str]):
        self.calls: dict[str, Call] = {}  # by session
        self.contacts: dict[str, Contact] = {}  # those that called, as they were known then
        self.situation, self._settings, self._send = situation, situation.session.settings, situation.session.send
        self._objection = objection
        self._absent: set[str] = set()  # they answered, and bring nothing

    def ask(self) -> None:
        """Ask those that have not called yet.

        Some are listed only now, of the voters too, where the convener was restarted; others may have caught up.
        """
        meet = Meet(self.situation.previous.digest, self.situation.ballot)
        for session in self.situation.contacts.others:
            if session not in self.calls:
                self._send(session, meet)

    def called(self, session: str, call: Call) -> None:
        """A peer takes part. One that says to have accepted what cannot be right counts as silent.

        To take its promise and to ignore the header would not be safe, in case it can be right after all. Of one that
        offers more than it can have, only the promise counts.
        """
        if session != self.situation.me.session and self._lies(call.accepted):
            self.is_absent(session)
            return
        is_possible = all(one.weight > 0 and self._settings.may_bring(one.samples, one.weight) for one in call.buffers)
        if not (is_possible and self._settings.may_bring(call.samples, call.weight)):
            call = replace(call, buffers=())
        self.calls[session] = with_possible_figures(call)
        self.contacts[session] = self.situation.contact(session)

    def is_absent(self, session: str) -> None:
        """A peer has answered, and takes no part."""
        self._absent.add(session)

    @property
    def goodbyes(self) -> dict[str, Goodbye]:
        """Those that this ballot may count, by session."""
        previous, all_said = self.situation.previous, self.situation.contacts.goodbyes
        farewells = {session: one.farewell for session, one in all_said.items()}
        counted = quorum.counted_goodbyes(previous, self.situation.ballot, farewells)
        return {
            session: all_said[session] for session in counted if not self._lies(self._accepted_by(all_said[session]))
        }

    def _accepted_by(self, goodbye: Goodbye) -> Accepted | None:
        """In this decision."""
        return goodbye.accepted if goodbye.farewell.instance == self.situation.previous.digest else None

    def _lies(self, accepted: Accepted | None) -> bool:
        return accepted is not None and bool(self._objection(accepted.header))

    @property
    def has_promises(self) -> bool:
        """Whether enough voters have promised."""
        return quorum.has_quorum(self.situation.previous, self.situation.me.session, self.calls.keys(), self.goodbyes)

    @property
    def resets(self) -> bool:
        """Whether this ballot does without a quorum."""
        return self.situation.may_reset and not self.has_promises

    def is_over(self, is_late: bool) -> bool:
        """Whether enough voters have promised, and all have called or the time is over."""
        if not is_late and (self.missing or (self.lacks_samples and self._without(self.situation.doubtful))):
            return False
        return self.has_promises or (is_late and self.situation.may_reset)

    @property
    def missing(self) -> frozenset[str]:
        """Those that are waited for."""
        return self._without(self.situation.awaited)

    def _without(self, peers: frozenset[str]) -> frozenset[str]:
        return peers - self.calls.keys() - self._absent

    @property
    def samples(self) -> int:
        """What those that called bring to the batch."""
        ignored = self.situation.ignored
        return sum(call.samples for session, call in self.calls.items() if self.contacts[session].user not in ignored)

    @property
    def lacks_samples(self) -> bool:
        """Whether they bring less than a batch."""
        return self.samples < self._settings.target_samples

    @property
    def members(self) -> tuple[Member, ...]:
        """All that called, with what they bring, in the order of their sessions."""
        return tuple(member_of(self.contacts[session], call.buffers) for session, call in sorted(self.calls.items()))

    def accepted_by_others(self, own: Accepted | None) -> Header | None:
        """The header that this ballot has to propose again, if there is one; `own`: that the convener has accepted."""
        called = [call.accepted for call in self.calls.values()]
        left = [self._accepted_by(goodbye) for goodbye in self.goodbyes.values()]
        return quorum.highest_accepted([*called, *left, own])

    # -- the header that this ballot proposes, if no other has to be proposed again

    def update(self, plan: Plan, results: Sequence[Reduced]) -> Header:
        """What the members of a plan have averaged; `results` are one for each part, in the order of the vector."""
        members, parts, exclusions = averaged(plan.members, results)
        return self._next_header(
            HeaderKind.UPDATE,
            members=members,
            parts=parts,
            exclusions=exclusions,
            on_probation=plan.on_probation,
            voters=quorum.choose_voters(members, self.situation.recent),
        )

    def rollback(self, snapshot: str) -> Header:
        """The state of a snapshot, given by its digest, instead of an update."""
        present = tuple(_without_gradient(one) for one in self._trainers)
        header = self._next_header(
            HeaderKind.ROLLBACK,
            members=present,
            snapshot=SnapshotName(self.situation.previous.step + 1, snapshot),
            voters=quorum.choose_voters(present, self.situation.recent, by_past_credit=True),
        )
        return ordered(header, self.situation.session.credentials)

    def reset(self, chosen: Header | None) -> Header:
        """New voters; an update that a peer has accepted is kept."""
        previous = self.situation.previous
        kept = ("members", "parts", "exclusions", "on_probation") if chosen is not None else ()
        header = self._next_header(
            HeaderKind.RESET,
            voters=quorum.choose_voters(self._trainers, self.situation.recent, by_past_credit=True),
            resets=(*previous.resets, Reset(previous.step + 1, self.situation.ballot))[-MOST_RESETS:],
            **{name: getattr(chosen, name) for name in kept},
        )
        return ordered(header, self.situation.session.credentials)

    @property
    def _trainers(self) -> list[Member]:
        return [one for one in self.members if not self.contacts[one.session].is_coordinator]

    def _next_header(self, kind: HeaderKind, **fields: Any) -> Header:
        """A header after the previous one: what all kinds have in common, and these fields."""
        situation, previous = self.situation, self.situation.previous
        coordinators = [session for session, contact in self.contacts.items() if contact.is_coordinator]
        if situation.me.is_coordinator:
            coordinators = [situation.me.session]
        common = Header(
            run=previous.run,
            step=previous.step + 1,
            kind=kind,
            previous=previous.digest,
            ballot=situation.ballot,
            tie_breaker=max(coordinators, default=previous.tie_breaker),
            snapshot=situation.snapshot,
            resets=previous.resets,
        )
        return replace(common, **fields)


def member_of(contact: Contact, offers: Sequence[Offer]) -> Member:
    """A peer, with what it brings."""
    weight = sum(offer.weight for offer in offers)
    losses = [offer.loss for offer in offers if offer.loss is not None]
    loss = sum(losses) / weight if weight and len(losses) == len(offers) else None
    return Member(
        contact.session,
        contact.user,
        buffers=tuple(offer.number for offer in offers),
        weight=weight,
        reachable=contact.reachable,
        samples=sum(offer.samples for offer in offers),
        loss=loss if loss is None or loss <= LARGEST_LOSS else None,
    )


def averaged(
    members: Sequence[Member], results: Sequence[Reduced]
) -> tuple[tuple[Member, ...], tuple[Part, ...], tuple[Exclusion, ...]]:
    """What a header says of a mean. A member that is missing from all chunks has brought nothing, and may do so again.

    A reducer is heard about its own part and those whose pieces were planned: else it could have voters object.

    Args:
        results: one for each part, in the order of the vector.
    """
    planned = {member.session for member in members if member.buffers}
    missing: dict[str, set[int]] = {}
    for result in results:
        for session, chunk in result.missing:
            if session in planned and 0 <= chunk - result.assignment.first < result.assignment.count:
                missing.setdefault(session, set()).add(chunk)
    chunks = sum(len(result.chunks) for result in results)
    lost = {session for session, absent in missing.items() if len(absent) == chunks}
    told = tuple(_without_gradient(one) if one.session in lost else one for one in members)
    return (
        told,
        tuple(Part(one.assignment.reducer, one.chunks, plausible(one.loud, told)) for one in results),
        exclusions_of({session: absent for session, absent in missing.items() if session not in lost}),
    )


def with_possible_figures(call: Call) -> Call:
    """Leave out what a peer says of its line and its processor where plans could not reckon with it."""
    line = call.bandwidth and Bandwidth(_within(call.bandwidth.upload, LINES), _within(call.bandwidth.download, LINES))
    return replace(call, bandwidth=line, speed=_within(call.speed, SPEEDS))


def _within(figure: float, limits: tuple[float, float]) -> float:
    """The figure, or 0, which means that it is not known."""
    least, most = limits
    return figure if least <= figure <= most else 0.0


def _without_gradient(member: Member) -> Member:
    return replace(member, buffers=(), weight=0, samples=0, loss=None)
