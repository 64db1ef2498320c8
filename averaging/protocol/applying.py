"""From one header to the next: what a committed header changes in the parts of a peer, or a snapshot that is loaded."""

from collections.abc import Callable, Iterable

from averaging.log.chain import Chain
from averaging.log.header import Entry, Kind, SnapshotName
from averaging.protocol.actions import Action, Apply, Load
from averaging.protocol.adopting import Adopting
from averaging.protocol.backfilling import Backfilling
from averaging.protocol.buffers import Buffers
from averaging.protocol.catching_up import CatchingUp
from averaging.protocol.contacts import Contacts
from averaging.protocol.fetching import Fetching
from averaging.protocol.gathering import Gathering
from averaging.protocol.held_log import HeldLog
from averaging.protocol.leading import Leading
from averaging.protocol.reducing import Reduction
from averaging.protocol.trust import Trust
from averaging.protocol.voting import Voting


class Applying:
    """Of one peer."""

    def __init__(
        self,
        contacts: Contacts,
        log: HeldLog,
        buffers: Buffers,
        fetching: Fetching,
        catching_up: CatchingUp,
        backfilling: Backfilling,
        trust: Trust,
        adopting: Adopting,
        reducing: Reduction,
        voting: Voting,
        gathering: Gathering,
        leading: Leading,
        act: Callable[[Action], None],
    ):
        self._contacts, self._log, self._buffers, self._fetching = contacts, log, buffers, fetching
        self._catching_up, self._backfilling, self._trust, self._reducing = catching_up, backfilling, trust, reducing
        self._adopting = adopting
        self._voting, self._gathering, self._leading, self._act = voting, gathering, leading, act

    def go_on_from(self, chain: Chain, snapshots: Iterable[SnapshotName]) -> None:
        """The process has the state of the newest header of a chain."""
        self._log.start(chain, snapshots)
        self._new_step()

    def follow(self, now: float) -> None:
        """Load or apply what was found and is here."""
        loaded = self._catching_up.load(self._log.head, now)
        if loaded is not None:
            chain, log = loaded
            self._buffers.drop()
            assert log.snapshot is not None
            self._backfilling.loads(chain, None if self._log.chain is None else self._log.tip)
            self._act(Load(tuple(chain.since(0)), log.snapshot.digest, tuple(self._backfilling.gaps)))
            self._log.start(chain, [log.snapshot], log.entries[len(chain) :])
            self._log.told(log.anchor)
            self._new_step()
            self._log.forget_old(self._catching_up.wanted())
        while self._log.chain is not None and (entry := self._catching_up.next_entry(self._log.chain)) is not None:
            self.apply(entry, now)

    def apply(self, entry: Entry, now: float) -> None:
        """The next header is committed, and what it needs is here."""
        header = entry.header
        self._act(Apply(entry, self._voting.seconds_since_call(now)))
        self._log.append(entry)
        for member in header.members:
            if member.session == self._contacts.me.session:
                self._buffers.remove(member.buffers)
        if header.kind is Kind.ROLLBACK:
            self._buffers.drop()
            assert header.snapshot is not None
            self._log.pinned = None
            self._log.snapshots.append(header.snapshot)
            self._leading.rolled_back(header.snapshot.digest)
        if header.kind is Kind.UPDATE:
            members = {member.session for member in header.members}
            self._gathering.progress.round_closed(header.previous, members, now)
        self._reducing.end(entry.certificate.ballot)
        self._new_step()
        self._adopting.committed(header.snapshot, [entry.certificate.ballot.convener, *self._contacts.others], now)
        wanted = self._catching_up.wanted() | self._adopting.wanted()
        self._fetching.want_only(wanted)
        self._log.forget_old(wanted)
        self._gathering.report(now)

    def _new_step(self) -> None:
        self._log.told(self._trust.anchor)
        tip = self._log.tip
        self._contacts.forget_goodbyes(tip)
        self._voting.new_step(tip.digest, tip.ballot)
        self._leading.new_step()
        self._gathering.new_step(tip.digest)
