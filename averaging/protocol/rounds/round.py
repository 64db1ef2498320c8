"""A round: one ballot of one convener, from the meeting to the commit.

    MEETING    peers call: what they bring, and the promises of voters
    REDUCING   members average, each reducer a part
    FETCHING   the convener gets the chunks of the header that it is about to propose
    SAVING     a coordinator writes them to disk
    PROPOSING  voters accept

A ballot proposes one header: the one that voters may have chosen already, or else what this round has averaged.
"""

from collections.abc import Iterable
from enum import Enum

from averaging.log.header import Ballot, Certificate, Entry, Header, HeaderKind
from averaging.protocol import credentials as signed
from averaging.protocol.actions import SaveProposal
from averaging.protocol.commit import quorum
from averaging.protocol.commit.voting import Voting
from averaging.protocol.fetching import Fetching, first_of
from averaging.protocol.messages import Accepted, Call, Contact, Goodbye, Propose, Reduced, Reducing, Vote
from averaging.protocol.rounds.meeting import Meeting, Situation
from averaging.protocol.rounds.parts import Assignments, Planner, one_sided, reached_by_all
from averaging.protocol.rounds.reliability import MOST, explained


class Phase(Enum):
    """In the order in which they follow; see the module."""

    MEETING = "meeting"
    REDUCING = "reducing"
    FETCHING = "fetching"
    SAVING = "saving"
    PROPOSING = "proposing"
    COMMITTED = "committed"
    FAILED = "failed"


class Round:
    """The convener's side of a round."""

    def __init__(
        self,
        situation: Situation,
        planner: Planner,
        voting: Voting,
        fetching: Fetching,
        now: float,
    ):
        self._situation, self._planner, self.ballot = situation, planner, situation.ballot
        self._patience = situation.patience
        self._voting, self._fetching = voting, fetching
        self._session, self._settings, self._me = situation.session, situation.session.settings, situation.me
        self._send = self._session.send
        self._began = self._sent_at = self._moved_at = now
        self.phase = Phase.MEETING
        self.failed_in: Phase | None = None
        self.lacks_samples = False  # it failed because peers brought less than they had reported
        self.meeting = Meeting(situation, voting.objection)
        self._assignments: Assignments | None = None
        self.header: Header | None = None
        self._is_accepted = False  # the header, by a voter in an earlier ballot, or its update
        self._votes: dict[str, bytes] = {}  # signature by session
        self._lacks_of: set[str] = set()  # reducers, whose chunks were not here when it looked last
        self._fetching_since = now
        self.entry: Entry | None = None
        self.meeting.ask()

    # -- what others say

    def called(self, session: str, call: Call) -> None:
        """A peer is there, and a voter promises."""
        if self.phase is Phase.MEETING and call.ballot == self.ballot:
            self.meeting.called(session, call)

    def is_absent(self, session: str) -> None:
        """A peer has answered, and takes no part in this round."""
        self.meeting.is_absent(session)

    def lost(self, session: str) -> None:
        """The connection to a peer has broken: its parts go to stand-ins."""
        if self._reducing is not None:
            self._reducing.lost(session)

    def heard(self, session: str, news: Reducing | Reduced | Vote, now: float) -> None:
        """Pieces are still coming in at a reducer; or a part is done; or a voter has accepted."""
        if news.ballot != self.ballot:
            return
        match news:
            case Reducing() if self._reducing is not None:
                self._moved_at = now
                self._reducing.reducing(session, news, now)
            case Reduced() if self._reducing is not None:
                self._reducing.reduced(session, news, now)
            case Vote() if self.phase is Phase.PROPOSING and self._is_vote_of(session, news):
                self._votes[session] = news.signature

    @property
    def _reducing(self) -> Assignments | None:
        return self._assignments if self.phase is Phase.REDUCING else None

    def _is_vote_of(self, session: str, vote: Vote) -> bool:
        """Whether others will believe that it has voted for this header."""
        assert self.header is not None
        content = signed.vote(session, self.header.previous, vote.ballot, self.header.digest)
        return self._session.credentials.verify(session, content, vote.signature)

    def saved(self, now: float) -> None:
        """The disk has the proposal."""
        if self.phase is Phase.SAVING:
            assert self.header is not None
            if self.header.kind is HeaderKind.RESET:
                self._commit((), now)
            else:
                self._propose()

    def refused(self, session: str, promised: Ballot, now: float) -> None:
        """A voter has promised a higher ballot. One that says so again and again has nobody begin anew any more.

        It is the refuser that is charged, since anybody can name a ballot of another.
        """
        if promised <= self.ballot or self.is_over:
            return
        if self._patience.trusts(session, now):
            self._patience.waited(session, self._settings.timeouts.meeting, now, since=self._began)
            self._fail()
        else:
            self.is_absent(session)

    # -- what follows

    @property
    def is_over(self) -> bool:
        """Whether nothing more will come of it."""
        return self.phase in (Phase.COMMITTED, Phase.FAILED)

    @property
    def has_no_quorum(self) -> bool:
        """Whether it failed because too few voters promised, or none gave the update that one has accepted."""
        return not self.meeting.has_promises or (self.failed_in is Phase.FETCHING and self._is_accepted)

    @property
    def senders(self) -> tuple[set[str], set[str]]:
        """Members whose gradients are in the header of this ballot, and those that have offered some and sent none."""
        if self.header is None or self.header.ballot != self.ballot:
            return set(), set()
        offered = {session for session, call in self.meeting.calls.items() if call.buffers}
        brought = {member.session for member in self.header.members if member.buffers}
        return brought, offered - brought

    def advance(self, now: float) -> None:
        """Go on as far as possible."""
        if not self.is_over and now >= self._moved_at + self._settings.timeouts.ballot:
            self._has_waited_for_chunks(now - self._fetching_since, now)
            self._fail()
        if self.phase is Phase.MEETING:
            self._close_meeting(now)
        if self.phase is Phase.REDUCING:
            self._collect_parts(now)
        if self.phase is Phase.FETCHING:
            self._have_chunks(now)
        if self.phase is Phase.PROPOSING:
            self._count_votes(now)
        if not self.is_over and now >= self._sent_at + self._settings.timeouts.resend:
            self._sent_at = now
            self._repeat()

    def _fail(self) -> None:
        self.failed_in, self.phase = self.phase, Phase.FAILED

    def _repeat(self) -> None:
        """Say again what may have been lost."""
        if self.phase is Phase.MEETING:
            self.meeting.ask()
        elif self._reducing is not None:
            self._reducing.tell()
        elif self.phase is Phase.PROPOSING:
            self._propose()

    # -- meeting and reducing

    def _close_meeting(self, now: float) -> None:
        """Go on once enough voters have promised, and all have called or the time is over."""
        meeting = self._settings.timeouts.meeting
        if not self.meeting.is_over(is_late=now >= self._began + meeting):
            return
        for session in self.meeting.missing:
            self._patience.waited(session, meeting, now, since=self._began)
        chosen = self.meeting.accepted_by_others(self._voting.voter.accepted)
        self._is_accepted = chosen is not None
        if self.meeting.resets:
            self._fetch(self.meeting.reset(chosen), now)
        elif chosen is not None:
            self._fetch(chosen, now)
        elif self._situation.rollback is not None:
            self._fetch(self.meeting.rollback(self._situation.rollback), now)
        else:
            self._assign(now)

    def _assign(self, now: float) -> None:
        calls, contacts, left = self.meeting.calls, self.meeting.contacts, self._situation.contacts.goodbyes
        accepting = {session for session in calls if contacts[session].reachable and session not in left}
        self.lacks_samples = self.meeting.lacks_samples
        if self.lacks_samples or not accepting:  # no member could reduce
            self._fail()
        else:
            self.phase = Phase.REDUCING
            self._assignments = Assignments(
                self._session,
                self._situation.previous.digest,
                self.ballot,
                calls,
                self.meeting.members,
                reached_by_all(calls, accepting),
                self._planner,
                self._patience,
                now,
            )

    def _collect_parts(self, now: float) -> None:
        assert self._assignments is not None
        results = self._assignments.results(now)
        if results is not None:
            self._fetch(self.meeting.update(self._assignments.plan, results), now)

    # -- proposing

    def _fetch(self, header: Header, now: float) -> None:
        self.header, self.phase, self._fetching_since = header, Phase.FETCHING, now
        holders = [one for one, call in self.meeting.calls.items() if call.accepted and call.accepted.header == header]
        sources = first_of(holders, self.meeting.calls, self._situation.contacts.others, but=self._me.session)
        self._fetching.want_header(header, sources, now, is_new=not holders)

    def _have_chunks(self, now: float) -> None:
        assert self.header is not None
        if not self._fetching.holds(self.header.needed):
            if self.header.ballot == self.ballot:
                self._lacks_of = {part.reducer for part in self.header.parts if not self._fetching.holds(part.chunks)}
            is_late = now >= self._began + self._settings.timeouts.ballot / 2
            if not (self._situation.may_reset and self._is_accepted and is_late):
                return
            self.header = self.meeting.reset(None)  # all that held the accepted update have gone
        if self._assignments is not None:
            by_lines = explained(self._assignments.plan.seconds, self._settings.timeouts.sending)
            self._has_waited_for_chunks(now - self._fetching_since - by_lines, now)
        if self._me.is_coordinator:
            self.phase = Phase.SAVING
            self._session.act(SaveProposal(Accepted(self.ballot, self.header, self._evidence)))
        else:
            self._propose()

    def _has_waited_for_chunks(self, seconds: float, now: float) -> None:
        """For those of reducers whose chunks came last, or did not come."""
        for session in self._lacks_of:
            self._patience.waited(session, seconds, now, since=self._began)
        self._lacks_of = set()

    @property
    def _evidence(self) -> tuple[Contact, ...]:
        assert self.header is not None
        return self._situation.contacts.evidence(self.header)

    def _propose(self) -> None:
        assert self.header is not None
        if self.phase is not Phase.PROPOSING:
            self.phase = Phase.PROPOSING
            if not self._voting.voter.accept(self.ballot, self.header):
                self._fail()  # this peer has promised a higher ballot
                return
            self._votes[self._me.session] = self._voting.signed_vote(self.ballot, self.header).signature
        proposal = Propose(self.ballot, self.header, self._evidence)
        for session in sorted({*self.meeting.calls, *self._situation.previous.voters} - self._votes.keys()):
            self._send(session, proposal)

    def _count_votes(self, now: float) -> None:
        goodbyes = self.meeting.goodbyes
        if quorum.has_quorum(self._situation.previous, self._me.session, self._votes.keys(), goodbyes):
            self._commit(goodbyes.values(), now)

    def _commit(self, goodbyes: Iterable[Goodbye], now: float) -> None:
        assert self.header is not None
        self.phase = Phase.COMMITTED
        for reducer in one_sided(self.header) if self.header.ballot == self.ballot else ():
            self._patience.waited(reducer, MOST, now, since=self._began)
        deciding = {*self._situation.previous.voters, self._me.session}  # members vote, too
        votes = tuple(sorted(deciding & self._votes.keys()))
        signatures = tuple(self._votes[session] for session in votes)
        left = tuple(sorted((one.farewell for one in goodbyes), key=lambda one: one.session))
        self.entry = Entry(self.header, Certificate(self.ballot, votes, left, signatures))
