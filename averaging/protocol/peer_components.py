"""The parts of a peer, and what a committed header, or a snapshot that is loaded, changes in them."""

from collections.abc import Iterable

from averaging.log.chain import Chain
from averaging.log.header import Entry, Header, HeaderKind, SnapshotName
from averaging.protocol.actions import Apply, Load
from averaging.protocol.auditing import Auditing
from averaging.protocol.buffers import Buffers
from averaging.protocol.catching_up.adopting import Adopting
from averaging.protocol.catching_up.backfilling import Backfilling
from averaging.protocol.catching_up.catching_up import CatchingUp
from averaging.protocol.catching_up.held_log import HeldLog
from averaging.protocol.catching_up.trust import Trust
from averaging.protocol.commit import quorum
from averaging.protocol.commit.objections import objection
from averaging.protocol.commit.voting import Voting
from averaging.protocol.contacts import Contacts
from averaging.protocol.credentials import Credentials
from averaging.protocol.fetching import Fetching
from averaging.protocol.messages import Contact
from averaging.protocol.resting import Resting
from averaging.protocol.rounds.batch_progress import BatchProgress
from averaging.protocol.rounds.convening import Convening
from averaging.protocol.rounds.parts import Planner
from averaging.protocol.rounds.reducing import Reduction
from averaging.protocol.rounds.reliability import Patience
from averaging.protocol.session import Session
from averaging.protocol.settings import Settings


class Components:
    """Those of one session; `LogPeer` tells them what happens."""

    def __init__(
        self,
        me: Contact,
        settings: Settings,
        credentials: Credentials,
        now: float,
        held: Iterable[str],
        planner: Planner,
    ):
        self.session = session = Session(me, settings, credentials)
        self.buffers = Buffers(settings.most_samples)
        self.contacts = contacts = Contacts(me, credentials)
        self.trust = Trust(contacts, settings.run, credentials)
        self.fetching = Fetching(session.send, session.timeouts, held)
        self.log = HeldLog(session, self.fetching)
        self.backfilling = Backfilling(session, contacts, self.log)
        self.adopting = Adopting(session, self.log, self.fetching)
        self.catching_up = CatchingUp(session, self.fetching, self.trust, self._also_wanted)
        patience = Patience()
        self.auditing = Auditing(session, contacts, patience)
        self.reducing = Reduction(session, patience)
        self.resting = Resting(me.session)
        self.voting = Voting(session, contacts, self.buffers, self.fetching, self._objection, self.resting)
        self.progress = BatchProgress(
            session, contacts, self.log, self.buffers, self.voting, self.catching_up, patience, now
        )
        self.convening = Convening(
            session, contacts, planner, self.log, self.progress, self.voting, self.fetching, patience
        )

    def go_on_from(self, chain: Chain, snapshots: Iterable[SnapshotName]) -> None:
        """The process has the state of the newest header of a chain."""
        self.log.start(chain, snapshots)
        self._new_step()

    def follow(self, now: float) -> None:
        """Load or apply what was found and is here."""
        loaded = self.catching_up.load(self.log.head, now)
        if loaded is not None:
            chain, log = loaded
            self.buffers.drop()
            assert log.snapshot is not None
            self.backfilling.loads(chain, None if self.log.chain is None else self.log.tip)
            self.session.act(Load(tuple(chain.since(0)), log.snapshot.digest, tuple(self.backfilling.gaps)))
            self.log.start(chain, [log.snapshot], log.entries[len(chain) :])
            self.log.told(log.anchor)
            self._new_step()
            self.log.forget_old(self.catching_up.wanted())
        while self.log.chain is not None and (entry := self.catching_up.next_entry(self.log.chain)) is not None:
            self.apply(entry, now)

    def apply(self, entry: Entry, now: float) -> None:
        """The next header is committed, and what it needs is here."""
        header = entry.header
        self.session.act(Apply(entry, self.voting.seconds_since_call(now)))
        self.log.append(entry)
        me = self.session.me.session
        own = next((member.buffers for member in header.members if member.session == me), ())
        if header.kind is HeaderKind.UPDATE:
            self.buffers.decided(own, is_whole=all(one.session != me for one in header.exclusions))
        else:
            self.buffers.remove(own)
        if header.kind is HeaderKind.ROLLBACK:
            self.buffers.drop()
            assert header.snapshot is not None
            if header.snapshot.digest == self.log.pinned:
                self.log.pinned = None
            self.log.snapshots.append(header.snapshot)
        if header.kind is HeaderKind.UPDATE:
            members = {member.session for member in header.members}
            self.progress.views.round_closed(header.previous, members, now)
        self.reducing.end(entry.certificate.ballot, now)
        self.progress.choice.decided(entry.certificate.ballot, header.ballot, now)
        self.auditing.committed(header, now)
        self._new_step()
        self.adopting.committed(header.snapshot, [entry.certificate.ballot.convener, *self.contacts.others], now)
        wanted = self.catching_up.wanted() | self.adopting.wanted()
        self.fetching.want_only(wanted)
        self.log.forget_old(wanted)
        self.progress.report(now)

    def _new_step(self) -> None:
        self.log.told(self.trust.anchor)
        tip = self.log.tip
        self.contacts.forget_goodbyes(tip)
        self.voting.new_step(tip.digest, tip.ballot)
        self.convening.new_step()
        self.progress.new_step()

    def _also_wanted(self) -> set[str]:
        return self.adopting.wanted() | ({self.log.pinned} if self.log.pinned else set())

    def _objection(self, header: Header) -> str:
        assert self.log.chain is not None
        recent = self.log.chain.last(quorum.WINDOW)
        closed, credentials = self.buffers.closed, self.session.credentials
        return objection(
            header, recent, self.session.settings, self.contacts, closed, self.adopting.accepted, credentials
        )
