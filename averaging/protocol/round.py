"""A round: one ballot of one convener, from the meeting to the commit.

    MEETING    peers call: what they bring, and the promises of voters
    REDUCING   members average, each reducer a part
    FETCHING   the convener gets the chunks of the header that it is about to propose
    SAVING     a coordinator writes them to disk
    PROPOSING  voters accept

A ballot proposes one header: the one that voters may have chosen already, or else what this round has averaged.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from averaging.log.header import (
    Ballot,
    Certificate,
    Entry,
    Exclusion,
    Header,
    Kind,
    Member,
    Part,
    Reset,
    SnapshotName,
)
from averaging.protocol import quorum
from averaging.protocol.fetching import Fetching, first_of
from averaging.protocol.messages import (
    Accepted,
    Action,
    Assignment,
    Call,
    Contact,
    Goodbye,
    Meet,
    Message,
    Plan,
    Propose,
    Reduced,
    Reducing,
    SaveProposal,
    Vote,
)
from averaging.protocol.parts import equal_parts
from averaging.protocol.settings import Settings
from averaging.protocol.voter import Voter


class Phase(Enum):
    """See the module."""

    MEETING = "meeting"
    REDUCING = "reducing"
    FETCHING = "fetching"
    SAVING = "saving"
    PROPOSING = "proposing"
    COMMITTED = "committed"
    FAILED = "failed"


@dataclass(frozen=True)
class Situation:
    """What a convener knows when it begins a ballot."""

    previous: Header
    recent: Sequence[Header]  # the last ones, for the choice of voters
    contacts: Mapping[str, Contact]
    goodbyes: Mapping[str, Goodbye]
    awaited: frozenset[str]  # peers for which the meeting stays open
    snapshot: SnapshotName | None  # the newest that there is
    rollback: str | None  # digest of the snapshot that the authority wants back
    may_reset: bool  # the quorum has been missing for so long that the coordinator may name new voters


class Round:
    """The convener's side of a round."""

    def __init__(
        self,
        me: Contact,
        ballot: Ballot,
        situation: Situation,
        settings: Settings,
        voter: Voter,
        fetching: Fetching,
        send: Callable[[str, Message], None],
        act: Callable[[Action], None],
        now: float,
    ):
        self._me, self.ballot, self._situation, self._settings = me, ballot, situation, settings
        self._voter, self._fetching, self._send, self._act = voter, fetching, send, act
        self._began = self._sent_at = self._moved_at = now
        self.phase = Phase.MEETING
        self.failure = ""
        self.lacks_chunks = False  # it failed because nobody sent those of an accepted header
        self.calls: dict[str, Call] = {}
        self._absent: set[str] = set()  # they answered, and bring nothing
        self._plan: Plan | None = None
        self._results: dict[int, Reduced] = {}  # by first chunk
        self._assigned_at: dict[int, float] = {}  # by first chunk
        self._tried: dict[int, set[str]] = {}  # reducers by first chunk
        self.header: Header | None = None
        self._votes: set[str] = set()
        self.entry: Entry | None = None
        self._meet()

    # -- what others say

    def called(self, session: str, call: Call, now: float) -> None:
        """A peer is there, and a voter promises."""
        if self.phase is Phase.MEETING and call.ballot == self.ballot:
            self.calls[session] = call
            self.advance(now)

    def is_absent(self, session: str, now: float) -> None:
        """A peer has answered, and takes no part in this round."""
        self._absent.add(session)
        self.advance(now)

    def reducing(self, session: str, news: Reducing, now: float) -> None:
        """Pieces are still coming in at a reducer."""
        if self.phase is Phase.REDUCING and news.ballot == self.ballot and self._plan is not None:
            for part in self._plan.parts:
                if (part.reducer, part.first, part.attempt) == (session, news.first, news.attempt):
                    self._assigned_at[part.first] = self._moved_at = now

    def lost(self, session: str, now: float) -> None:
        """The connection to a peer has broken: its parts go to stand-ins."""
        for part in self._plan.parts if self._plan is not None else ():
            if part.reducer == session:
                self._assigned_at[part.first] = float("-inf")
        self.advance(now)

    def reduced(self, session: str, result: Reduced, now: float) -> None:
        """A part is done. The first reducer that has done it wins; members fetch by digest what they lack of it."""
        first = result.assignment.first
        if self.phase is Phase.REDUCING and result.ballot == self.ballot and first not in self._results:
            self._results[first] = replace(result, assignment=replace(result.assignment, reducer=session))
            self.advance(now)

    def voted(self, session: str, vote: Vote, now: float) -> None:
        """A voter has accepted."""
        if self.phase is Phase.PROPOSING and vote.ballot == self.ballot:
            self._votes.add(session)
            self.advance(now)

    def saved(self, now: float) -> None:
        """The disk has the proposal."""
        if self.phase is Phase.SAVING:
            assert self.header is not None
            if self.header.kind is Kind.RESET:
                self._commit({})
            else:
                self._propose()
            self.advance(now)

    def refused(self, promised: Ballot) -> None:
        """A peer has promised a higher ballot."""
        if promised > self.ballot and not self.is_over:
            self._fail(f"a ballot of {promised.convener} is higher")

    # -- what follows

    @property
    def is_over(self) -> bool:
        """Whether nothing more will come of it."""
        return self.phase in (Phase.COMMITTED, Phase.FAILED)

    def advance(self, now: float) -> None:
        """Go on as far as possible."""
        if not self.is_over and now >= self._moved_at + self._settings.timing.ballot:
            self._fail(f"still {self.phase.value} after {now - self._began:.0f} s")
        if self.phase is Phase.MEETING:
            self._close_meeting(now)
        if self.phase is Phase.REDUCING:
            self._collect_parts(now)
        if self.phase is Phase.FETCHING:
            self._have_chunks(now)
        if self.phase is Phase.PROPOSING:
            self._count_votes()
        if not self.is_over and now >= self._sent_at + self._settings.timing.resend:
            self._sent_at = now
            self._repeat()

    def _fail(self, why: str) -> None:
        self.lacks_chunks = self.phase is Phase.FETCHING
        self.phase, self.failure = Phase.FAILED, why

    def _repeat(self) -> None:
        """Say again what may have been lost."""
        if self.phase is Phase.MEETING:
            self._meet()
        elif self.phase is Phase.REDUCING:
            self._tell_plan()
        elif self.phase is Phase.PROPOSING:
            self._propose()

    def _meet(self) -> None:
        previous = self._situation.previous
        for session in self._situation.contacts:
            if session not in self.calls and session not in self._absent:
                self._send(session, Meet(previous.digest, previous.step, self.ballot))

    def _goodbyes(self) -> dict[str, Goodbye]:
        return quorum.counted_goodbyes(self._situation.previous, self.ballot, self._situation.goodbyes)

    @property
    def has_promises(self) -> bool:
        """Whether enough voters have promised."""
        return quorum.has_quorum(self._situation.previous, self._me.session, self.calls.keys(), self._goodbyes())

    @property
    def resets(self) -> bool:
        """Whether this ballot does without a quorum."""
        return self._situation.may_reset and not self.has_promises

    def _close_meeting(self, now: float) -> None:
        """Go on once enough voters have promised, and all have called or the time is over."""
        is_late = now >= self._began + self._settings.timing.meeting
        everybody = self._situation.awaited <= self.calls.keys() | self._absent
        if not (self.has_promises or (self.resets and is_late)) or not (everybody or is_late):
            return
        chosen = self._accepted_by_others()
        if self.resets:
            self._fetch(self._reset(chosen), now)
        elif chosen is not None:
            self._fetch(chosen, now)
        elif self._situation.rollback is not None:
            self._fetch(self._rollback(self._situation.rollback), now)
        else:
            self._make_plan(now)

    def _accepted_by_others(self) -> Header | None:
        known = [call.accepted for call in self.calls.values()]
        same = [one for one in self._goodbyes().values() if one.instance == self._situation.previous.digest]
        return quorum.highest_accepted([*known, *(goodbye.accepted for goodbye in same), self._voter.accepted])

    # -- reducing

    def _make_plan(self, now: float) -> None:
        weight = sum(weight for call in self.calls.values() for _, weight in call.buffers)
        if weight < self._settings.target_weight:
            self._fail(f"peers brought {weight} of {self._settings.target_weight} masked tokens")
            return
        reducers = self._possible_reducers()
        if not reducers:
            self._fail("no member accepts connections")
            return
        self._plan = Plan(
            instance=self._situation.previous.digest,
            ballot=self.ballot,
            members=tuple(
                (session, tuple(number for number, _ in call.buffers)) for session, call in sorted(self.calls.items())
            ),
            parts=equal_parts(self._settings.chunks, reducers[: self._settings.most_parts]),
        )
        self._assigned_at = {part.first: now for part in self._plan.parts}
        self._tried = {part.first: {part.reducer} for part in self._plan.parts}
        self.phase = Phase.REDUCING
        self._tell_plan()

    def _possible_reducers(self) -> list[str]:
        return [session for session in sorted(self.calls) if self._contact(session).reachable]

    def _contact(self, session: str) -> Contact:
        if session == self._me.session:
            return self._me
        return self._situation.contacts.get(session, Contact(session, user=session, reachable=False))

    def _tell_plan(self) -> None:
        assert self._plan is not None
        for session in self.calls:
            self._send(session, self._plan)

    def _collect_parts(self, now: float) -> None:
        assert self._plan is not None
        waiting = [part for part in self._plan.parts if part.first not in self._results]
        if not waiting:
            self._fetch(self._update(), now)
            return
        late = [part for part in waiting if now >= self._assigned_at[part.first] + self._settings.timing.part]
        if late:
            self._plan = replace(
                self._plan,
                parts=tuple(self._reassigned(part, now) if part in late else part for part in self._plan.parts),
            )
            self._tell_plan()

    def _reassigned(self, part: Assignment, now: float) -> Assignment:
        """The same chunks, at a stand-in: a member that has not tried them yet, the convener if there is no other."""
        others = [one for one in self._possible_reducers() if one not in self._tried[part.first]]
        stand_in = others[0] if others else self._me.session
        self._assigned_at[part.first] = now
        self._tried[part.first].add(stand_in)
        return replace(part, reducer=stand_in, attempt=part.attempt + 1)

    # -- headers

    def _members(self) -> tuple[Member, ...]:
        """All that called, with what they bring."""
        found = []
        for session, call in sorted(self.calls.items()):
            contact = self._contact(session)
            found.append(
                Member(
                    session,
                    contact.user,
                    tuple(number for number, _ in call.buffers),
                    sum(weight for _, weight in call.buffers),
                    contact.reachable,
                )
            )
        return tuple(found)

    def _next(self, kind: Kind, **fields: object) -> Header:
        """A header after the previous one, with what all kinds have in common."""
        previous = self._situation.previous
        coordinators = [one for one in self.calls if self._contact(one).is_coordinator]
        if self._me.is_coordinator:
            coordinators = [self._me.session]
        common = Header(
            run=previous.run,
            step=previous.step + 1,
            kind=kind,
            previous=previous.digest,
            ballot=self.ballot,
            voters=previous.voters,
            tie_breaker=max(coordinators, default=previous.tie_breaker),
            snapshot=self._situation.snapshot,
            resets=previous.resets,
        )
        return replace(common, **fields)  # type: ignore[arg-type]

    def _update(self) -> Header:
        results = [self._results[first] for first in sorted(self._results)]
        missing = [one for result in results for one in result.missing]
        lost = {session for session, _ in missing if sum(session == one for one, _ in missing) == self._settings.chunks}
        members = tuple(
            replace(member, buffers=(), weight=0) if member.session in lost else member  # it may bring them again
            for member in self._members()
        )
        return self._next(
            Kind.UPDATE,
            members=members,
            parts=tuple(Part(result.assignment.reducer, result.chunks) for result in results),
            exclusions=tuple(Exclusion(session, chunk) for session, chunk in missing if session not in lost),
            voters=quorum.choose_voters(members, self._situation.recent, self._situation.goodbyes),
        )

    def _rollback(self, snapshot: str) -> Header:
        return self._next(
            Kind.ROLLBACK, snapshot=SnapshotName(self._situation.previous.step + 1, snapshot), voters=self._present()
        )

    def _reset(self, chosen: Header | None) -> Header:
        """New voters; an update that somebody has accepted is kept."""
        at = Reset(self._situation.previous.step + 1, self.ballot)
        update = {} if chosen is None else {
            "members": chosen.members, "parts": chosen.parts, "exclusions": chosen.exclusions
        }  # fmt: skip
        return self._next(Kind.RESET, voters=self._present(), resets=(*self._situation.previous.resets, at), **update)

    def _present(self) -> tuple[str, ...]:
        """Voters by past credit, of those that are here, without a round: all weigh at least something."""
        members = [
            replace(member, weight=1) for member in self._members() if not self._contact(member.session).is_coordinator
        ]
        return quorum.choose_voters(members, self._situation.recent, self._situation.goodbyes)

    # -- proposing

    def _fetch(self, header: Header, now: float) -> None:
        self.header, self.phase = header, Phase.FETCHING
        holders = [one for one, call in self.calls.items() if call.accepted and call.accepted.header == header]
        sources = first_of(holders, self.calls, self._situation.contacts, but=self._me.session)
        self._fetching.want_header(header, sources, now, is_new=not holders)

    def _have_chunks(self, now: float) -> None:
        assert self.header is not None
        if not self._fetching.holds(needed(self.header)):
            if not self._situation.may_reset or now < self._began + self._settings.timing.ballot / 2:
                return
            self.header = self._reset(None)  # all that held the accepted update have gone
        if self._me.is_coordinator:
            self.phase = Phase.SAVING
            self._act(SaveProposal(Accepted(self.ballot, self.header)))
        else:
            self._propose()

    def _propose(self) -> None:
        assert self.header is not None
        if self.phase is not Phase.PROPOSING:
            self.phase = Phase.PROPOSING
            if not self._voter.accept(self.ballot, self.header):
                self._fail("this peer has promised a higher ballot")
                return
            self._votes.add(self._me.session)
        proposal = Propose(self._situation.previous.digest, self.ballot, self.header)
        for session in sorted({*self.calls, *self._situation.previous.voters} - self._votes):
            self._send(session, proposal)

    def _count_votes(self) -> None:
        goodbyes = self._goodbyes()
        if quorum.has_quorum(self._situation.previous, self._me.session, self._votes, goodbyes):
            self._commit(goodbyes)

    def _commit(self, goodbyes: Collection[str]) -> None:
        assert self.header is not None
        self.phase = Phase.COMMITTED
        self.entry = Entry(self.header, Certificate(self.ballot, tuple(sorted(self._votes)), tuple(sorted(goodbyes))))


def needed(header: Header) -> tuple[str, ...]:
    """The digests that a peer must hold to vote for a header and to apply it."""
    if header.kind is Kind.ROLLBACK:
        assert header.snapshot is not None
        return (header.snapshot.digest,)
    return header.chunks
