"""A convener's side between rounds: it begins a ballot when there is something to decide, and ends it."""

from msgspec.structs import replace

from averaging.log.header import Ballot, Entry
from averaging.protocol.actions import SaveWaited
from averaging.protocol.catching_up.held_log import HeldLog
from averaging.protocol.commit import quorum
from averaging.protocol.commit.voting import Voting
from averaging.protocol.contacts import Contacts
from averaging.protocol.fetching import Fetching
from averaging.protocol.messages import Call, Reduced, Reducing, Refused, Status, Vote
from averaging.protocol.rounds.batch_progress import BatchProgress
from averaging.protocol.rounds.meeting import Situation
from averaging.protocol.rounds.parts import Planner
from averaging.protocol.rounds.reliability import Patience
from averaging.protocol.rounds.round import Phase, Round
from averaging.protocol.session import Session


class Convening:
    """Begins, continues and ends the rounds that this peer convenes."""

    def __init__(
        self,
        session: Session,
        contacts: Contacts,
        planner: Planner,
        log: HeldLog,
        progress: BatchProgress,
        voting: Voting,
        fetching: Fetching,
        patience: Patience,
    ):
        self.round: Round | None = None  # that this peer convenes
        self._session, self._contacts, self._planner = session, contacts, planner
        self._log, self._progress, self._voting, self._fetching = log, progress, voting, fetching
        self._patience = patience
        self._began_at = -1e9  # the last ballot
        self._no_quorum_since: float | None = None  # of this session's ballots one has failed; see `waited_before`
        self.waited_before = 0.0  # seconds in which earlier sessions of this coordinator had none for this step

    def new_step(self) -> None:
        """A header was applied."""
        self.round, self._no_quorum_since, self.waited_before = None, None, 0.0
        self._began_at = -1e9  # the pause is for ballots that decided nothing

    def go_on(self, now: float) -> Entry | None:
        """Begin a round or continue it, if this peer is to lead; the entry that it has committed."""
        if self.round is None and self._progress.leads(now):
            self._begin(now)
        return self._continue(self.round, now) if self.round is not None else None

    def _begin(self, now: float) -> None:
        """Open a ballot when there is something to decide."""
        me, timeouts, tip = self._session.me, self._session.timeouts, self._log.tip
        if now < self._began_at + timeouts.resend:
            return
        full = self._progress.is_full(now)
        rollback = self._log.pinned if me.is_coordinator else None
        if not (full or rollback):
            return
        if full:
            self._progress.choice.batch_is_full(now)
        self._began_at = now
        ballot = self._voting.new_ballot()
        waited = self._no_quorum_since is not None and now >= self._no_quorum_since + timeouts.reset
        assert self._log.chain is not None
        expected = frozenset(self._progress.views.expected(tip.digest, now))
        trusted = frozenset(one for one in expected if self._patience.trusts(one, now))
        situation = Situation(
            session=self._session,
            contacts=self._contacts,
            ballot=ballot,
            previous=tip,
            recent=self._log.chain.last(quorum.WINDOW),
            patience=self._patience,
            awaited=trusted,
            doubtful=expected - trusted,
            snapshot=self._log.newest_snapshot,
            rollback=rollback,
            ignored=self._progress.ignored(now),
            may_reset=me.is_coordinator and waited,
        )
        self.round = Round(situation, self._planner, self._voting, self._fetching, now)
        self.round.called(me.session, self._voting.call(ballot, now))

    def _continue(self, current: Round, now: float) -> Entry | None:
        current.advance(now)
        if current.phase is Phase.COMMITTED:
            self._progress.views.committed(*current.senders, now)
            self.round = None
            return current.entry
        if current.phase is Phase.FAILED:
            if current.failed_in is Phase.SAVING:
                self._progress.choice.can_convene = False  # until the disk has answered
            if current.lacks_samples:
                self._progress.choice.batch_is_not_full()
                self._voting.round_failed()
            if current.has_no_quorum:
                self._has_no_quorum(now)
            self._progress.views.round_closed(self._voting.instance, current.meeting.calls, now)
            self.round = None
        return None

    def _has_no_quorum(self, now: float) -> None:
        if self._no_quorum_since is None:
            self._no_quorum_since = self._began_at - self.waited_before  # this ballot's time was without one, too
        if self._session.me.is_coordinator:
            self._session.act(SaveWaited(self._voting.instance, now - self._no_quorum_since))

    # -- what others say

    def on_status(self, sender: str, status: Status, now: float) -> None:
        """A peer that stands somewhere else takes no part in this round."""
        if self.round is not None and status.head is not None and status.head != self._log.head:
            self.round.is_absent(sender)

    def on_call(self, sender: str, call: Call, now: float) -> None:
        """A peer is there, and a voter promises."""
        self._contacts.learn_of(call.accepted)
        if self.round is None or sender in self._contacts.goodbyes:
            return
        if self._contacts.get(sender) is None:
            self.round.is_absent(sender)  # its session is not listed
        else:
            is_planned = self._progress.views.sends(sender, now)
            self.round.called(sender, call if is_planned else replace(call, buffers=()))

    def on_refused(self, sender: str, refused: Refused, now: float) -> None:
        """A peer has promised a higher ballot; a voter's promise ends the round, others are not needed."""
        self._voting.knows_of(refused.promised)
        if self.round is None or refused.ballot != self.round.ballot:
            return
        if sender in self._log.tip.voters and not self._voting.is_leap(refused.promised):
            self.round.refused(sender, refused.promised, now)
        else:
            self.round.is_absent(sender)

    def on_news(self, sender: str, news: Reducing | Reduced | Vote, now: float) -> None:
        """A reducer is at work or has done a part, or a voter has accepted."""
        if self.round is not None:
            self.round.heard(sender, news, now)

    def has_left(self, session: str) -> None:
        """A peer has said goodbye."""
        if self.round is not None:
            self.round.is_absent(session)
            self.round.lost(session)

    def lost(self, session: str) -> None:
        """The connection to a peer has broken."""
        if self.round is not None:
            self.round.lost(session)

    def saved(self, ballot: Ballot, now: float) -> None:
        """A coordinator's disk has the proposal of a ballot."""
        self._progress.choice.can_convene = True
        if self.round is not None and ballot == self.round.ballot:
            self.round.saved(now)
