"""A peer of the log: the whole machine, made of the parts beside it.

The process around it hands in what happens, with the time, and carries out the actions in their order:

    machine.receive(sender, message, now)      machine.computed(weight, gradient, now)      machine.tick(now)
    for action in machine.take_actions(): ...
"""

from collections.abc import Callable, Iterable
from typing import Any

from averaging.log.chain import Chain
from averaging.log.header import Ballot, Entry, Head, Kind, SnapshotName, extends
from averaging.protocol import quorum
from averaging.protocol.buffers import Buffers
from averaging.protocol.catching_up import CatchingUp
from averaging.protocol.convening import Convening
from averaging.protocol.fetching import Fetching
from averaging.protocol.messages import (
    Accepted,
    Action,
    Apply,
    Call,
    Chunk,
    Commit,
    Contact,
    Forget,
    Goodbye,
    Lacks,
    Log,
    Meet,
    Message,
    Piece,
    Plan,
    Propose,
    Reduced,
    Reducing,
    Refused,
    Report,
    Send,
    Status,
    Vote,
    Want,
    WantLog,
)
from averaging.protocol.progress import Progress
from averaging.protocol.reducing import Reduction
from averaging.protocol.round import Phase, Round, Situation, needed
from averaging.protocol.settings import Settings
from averaging.protocol.voter import Voter

MOST_ENTRIES = 64  # of the log in an answer to a peer that is a little behind


class Peer:
    """One session of one peer."""

    def __init__(self, me: Contact, settings: Settings, now: float, held: Iterable[str] = ()):
        self.me, self.settings = me, settings
        timing = settings.timing
        self.chain: Chain | None = None  # None: it has no state yet
        self.snapshots: list[SnapshotName] = []  # that it can give, oldest first
        self.buffers = Buffers()
        self.voter = Voter(me.session, "")
        self.round: Round | None = None  # that this peer convenes
        self.rollback: str | None = None  # digest of the snapshot that the authority wants back
        self.has_left = False
        self._contacts: dict[str, Contact] = {}
        self._goodbyes: dict[str, Goodbye] = {}
        self._actions: list[Action] = []
        self._to_self: list[Message] = []
        self._progress = Progress()
        self._convening = Convening(me, timing, now)
        self.fetching = Fetching(self._send, timing, held)
        self.catching_up = CatchingUp(self.fetching, self._send, self._actions.append, timing)
        self.reducing = Reduction(me.session, self._send, self._actions.append, timing)
        self._computes = False
        self._calls: Meet | None = None  # that waits for the end of a batch
        self._caller, self._called_since = "", 0.0
        self._proposal: Accepted | None = None  # that waits for chunks
        self._proposed_by = ""
        self._logged: set[str] = set()  # chunks of the updates that can be given
        self._forgotten = -1  # step up to which there are none
        self._highest = 0  # ballot number that this peer knows of
        self._reported_at, self._reported_weight = -1e9, 0
        self._gathered = 0  # masked tokens of all peers, as the convener says
        self._spoke_at = -1e9
        self._began_at = -1e9  # the last ballot of this peer
        self._no_quorum_since: float | None = None
        self._handlers: dict[type, Callable[[str, Any, float], None]] = {
            Report: self._on_report,
            Status: self._on_status,
            Meet: self._on_meet,
            Call: self._on_call,
            Refused: self._on_refused,
            Goodbye: self._on_goodbye,
            Plan: self._on_plan,
            Piece: self.reducing.piece,
            Reducing: self._on_reducing,
            Reduced: self._on_reduced,
            Chunk: self._on_chunk,
            Want: self._on_want,
            Lacks: self._on_lacks,
            Propose: self._on_propose,
            Vote: self._on_vote,
            Commit: self._on_commit,
            WantLog: self._on_want_log,
            Log: self._on_log,
        }

    # -- what the process tells

    def start(self, chain: Chain, snapshots: Iterable[SnapshotName], accepted: Accepted | None = None) -> None:
        """Go on from a state that the process has: its own disk, or the beginning of a run.

        `accepted` was on the disk, too: one more header that may have been chosen, and no promise of this session.
        """
        self._goes_on_from(chain)
        self.snapshots = list(snapshots)
        for entry in chain.since(self.snapshots[0].step + 1):
            self._logged.update(needed(entry.header))
        if (
            accepted is not None
            and accepted.header.previous == chain.tip.digest
            and accepted.header.kind is Kind.UPDATE
        ):
            self.voter.accepted = accepted

    def rejoin(self, log: Log, now: float) -> None:
        """Go on from the log that the session before this one has rejoined for."""
        self.catching_up.log("", log, None, now)
        self._after(now)

    def contacts(self, contacts: Iterable[Contact], now: float) -> None:
        """The peers that the DHT lists now; instead of a tick, when they have changed."""
        self._contacts = {
            one.session: one for one in contacts if one.session != self.me.session and one.session not in self._goodbyes
        }
        self.tick(now)

    def receive(self, sender: str, message: Message, now: float) -> None:
        """A message has come."""
        self._progress.heard(sender, now)
        self._handlers[type(message)](sender, message, now)
        self._after(now)

    def computes(self) -> None:
        """A batch has been begun: a call waits for it for a moment, so that it is in this round and not in the next."""
        self._computes = True

    def computed(self, weight: int, gradient: Any, now: float) -> None:
        """The batch of so many masked tokens was computed, from the newest state or the one before."""
        self._computes = False
        if weight:
            self.buffers.add(weight, gradient)
        missing = max(0, self.settings.target_weight - self._gathered)
        news = self.buffers.weight - self._reported_weight
        if news * 2 * max(1, len(self._contacts)) >= missing:  # it may be what the batch lacks
            self._report(now)
        self._call_after_batch(now)
        self._after(now)

    def averaged(self, ballot: Ballot, chunk: int, attempt: int, digest: str, now: float) -> None:
        """The process has done an `Average`, and holds the encoded mean."""
        self.fetching.arrived(digest, now)
        self.reducing.averaged(ballot, chunk, attempt, digest)
        self._after(now)

    def proposal_saved(self, now: float) -> None:
        """The process has done a `SaveProposal`."""
        self._convening.can_convene = True
        if self.round is not None:
            self.round.saved(now)
        self._after(now)

    def saving_failed(self) -> None:
        """The disk takes nothing: others have to convene."""
        self._convening.can_convene, self.round = False, None

    def saving_works(self) -> None:
        """The disk has room again."""
        self._convening.can_convene = True

    def snapshot_made(self, step: int, digest: str, chunks: Iterable[str], now: float) -> None:
        """The process holds the state of a step, which was a snapshot step: a manifest and its chunks."""
        assert self.chain is not None
        self.fetching.made(digest, chunks, now)
        self.snapshots.append(SnapshotName(step, digest))
        self._forget_old()

    def lost(self, session: str, now: float) -> None:
        """The connection to a peer has broken: it may have died, or come back at once."""
        if self.round is not None:
            self.round.lost(session, now)
        self._after(now)

    def tick(self, now: float) -> None:
        """Time has passed; call it twice a second or so."""
        self.fetching.tick(now)
        self.reducing.tick(now)
        self.catching_up.tick(self.head, now)
        if now >= self._reported_at + self.settings.timing.report:
            self._progress.forget_silent(now, self.settings.timing.forget)
            self._report(now)
        if now >= self._spoke_at + self.settings.timing.report and self._leads(now):
            self._speak(now)
        self._after(now)

    def leave(self, now: float) -> None:
        """Say goodbye; the process ends after it has sent what is in the actions."""
        step = self.chain.tip.step if self.chain else -1
        goodbye = Goodbye(self.me.session, self.voter.instance, step, self.voter.promised, self.voter.accepted)
        for session in self._contacts:
            self._send(session, goodbye)
        self.has_left = True

    def take_actions(self) -> list[Action]:
        """What the process has to do now, in this order."""
        actions = list(self._actions)
        self._actions.clear()
        return actions

    # -- state

    @property
    def head(self) -> Head | None:
        """Where this peer stands."""
        return None if self.chain is None else self.chain.tip.head

    @property
    def is_behind(self) -> bool:
        """Whether it has no state, or others have a newer one: what it computes will not count."""
        return self.chain is None or self.catching_up.is_behind(self.head)

    def _goes_on_from(self, chain: Chain) -> None:
        self.chain = chain
        self._highest = max(self._highest, chain.tip.ballot.number)
        self.voter = Voter(self.me.session, chain.tip.digest)
        self.round, self._proposal, self._no_quorum_since = None, None, None
        self._gathered = 0
        self._convening.new_step(chain.tip.digest)

    def _apply(self, entry: Entry, now: float) -> None:
        assert self.chain is not None
        header = entry.header
        self._actions.append(Apply(entry))
        self.chain.append(entry)
        self._logged.update(needed(header))
        for member in header.members:
            if member.session == self.me.session:
                self.buffers.remove(member.buffers)
        if header.kind is Kind.ROLLBACK:
            self.buffers.drop()
            assert header.snapshot is not None
            self.snapshots.append(header.snapshot)
            if self.rollback == header.snapshot.digest:
                self.rollback = None
        if header.kind is Kind.UPDATE:
            self._progress.round_closed(header.previous, {member.session for member in header.members}, now)
        self.reducing.end(entry.certificate.ballot)
        self._goes_on_from(self.chain)
        self.fetching.want_only(self.catching_up.wanted())
        self._forget_old()
        self._report(now)

    def _forget_old(self) -> None:
        """Keep the newest snapshot (the coordinator: two) and what follows it, and nothing of failed rounds."""
        assert self.chain is not None
        keep = 2 if self.me.is_coordinator else 1
        self.snapshots = self.snapshots[-keep:]
        kept = {one.digest for one in self.snapshots}
        if self.snapshots:
            oldest = self.snapshots[0].step
            for entry in self.chain.between(self._forgotten, oldest):
                self._logged.difference_update(needed(entry.header))
            self._forgotten = oldest
            if not self.me.is_coordinator:
                self.chain.forget_before(oldest - quorum.WINDOW)
        wanted = self.catching_up.wanted()
        gone = self.fetching.held - self._logged - kept - wanted - self.fetching.parts_of(kept | wanted)
        if gone:
            self.fetching.forget(gone)
            self._actions.append(Forget(tuple(sorted(gone))))

    # -- sending

    def _send(self, to: str, message: Message) -> None:
        if to == self.me.session:
            self._to_self.append(message)
        else:
            self._actions.append(Send(to, message))

    def _report(self, now: float) -> None:
        self._reported_at, self._reported_weight = now, self.buffers.weight
        message = Report(self.head, self.buffers.weight)
        self._progress.note(self.me.session, self.head, self.buffers.weight, now)
        tip = self.chain.tip if self.chain else None
        if not self._leads(now):
            for session in self._convening.report_to(tip, self._contacts, now):
                self._send(session, message)

    def _speak(self, now: float) -> None:
        """A convener's word to those that do not report to it."""
        self._spoke_at = now
        present = self._progress.present(self.voter.instance, now)
        status = self._status(now)
        for session in self._contacts:
            if session not in present:
                self._send(session, status)

    def _status(self, now: float) -> Status:
        leads = self._leads(now)
        gathered = self._progress.gathered(self.voter.instance, now) if leads else 0
        return Status(self.head, self.voter.promised, leads, gathered)

    def _leads(self, now: float) -> bool:
        return (
            self.chain is not None and self._convening.leads(self.chain.tip, self._contacts, now) and not self.is_behind
        )

    # -- gathering

    def _on_report(self, sender: str, report: Report, now: float) -> None:
        self._progress.note(sender, report.head, report.weight, now)
        if report.head is not None:
            self.catching_up.claims(sender, report.head, self.head, now)
        self._send(sender, self._status(now))

    def _on_status(self, sender: str, status: Status, now: float) -> None:
        if status.ballot is not None:
            self._highest = max(self._highest, status.ballot.number)
        if status.head is None:
            return
        self.catching_up.claims(sender, status.head, self.head, now)
        contact = self._contacts.get(sender)
        leads_us = self.head is None or status.head == self.head or extends(status.head, self.head)
        if status.convenes and contact is not None and leads_us:
            self._gathered = status.gathered
            self._convening.heard(contact, status.gathered >= self.settings.target_weight, now)
        if self.round is not None:
            self.round.is_absent(sender, now) if status.head != self.head else None

    # -- rounds

    def _convene(self, now: float) -> None:
        """Begin a ballot when there is something to decide."""
        assert self.chain is not None
        timing, tip = self.settings.timing, self.chain.tip
        full = self._progress.gathered(tip.digest, now) >= self.settings.target_weight or self._convening.is_stalled(
            now
        )
        if not (full or (self.rollback and self.me.is_coordinator)) or now < self._began_at + timing.resend:
            return
        if full:
            self._convening.batch_is_full(now)
        self._began_at = now
        self._highest += 1
        ballot = Ballot(self._highest, self.me.session)
        waited = self._no_quorum_since is not None and now >= self._no_quorum_since + timing.reset
        situation = Situation(
            previous=tip,
            recent=self.chain.last(quorum.WINDOW),
            contacts=self._contacts,
            goodbyes=self._goodbyes,
            awaited=frozenset(self._progress.awaited(tip.digest, now)),
            snapshot=self._newest_snapshot(),
            rollback=self.rollback if self.me.is_coordinator else None,
            may_reset=self.me.is_coordinator and waited,
        )
        self.voter.promise(ballot)
        self.round = Round(
            self.me, ballot, situation, self.settings, self.voter, self.fetching, self._send, self._actions.append, now
        )
        self.round.called(self.me.session, self._call(ballot), now)

    def _newest_snapshot(self) -> SnapshotName | None:
        assert self.chain is not None
        known = [one for one in (self.chain.tip.snapshot, *self.snapshots) if one is not None]
        return max(known, key=lambda one: one.step, default=None)

    def _call(self, ballot: Ballot) -> Call:
        return Call(self.voter.instance, ballot, self.buffers.offer(), self.voter.accepted)

    def _on_meet(self, sender: str, meet: Meet, now: float) -> None:
        self._highest = max(self._highest, meet.ballot.number)
        if self.chain is None or meet.instance != self.voter.instance or self.is_behind:
            self._send(sender, self._status(now))
        elif self.voter.promise(meet.ballot):
            self._convening.other_ballot(now)
            self._called_since = now if self._calls is None or self._calls.ballot != meet.ballot else self._called_since
            self._calls, self._caller = meet, sender
            self._call_after_batch(now)
        else:
            assert self.voter.promised is not None
            self._send(sender, Refused(meet.instance, meet.ballot, self.voter.promised))

    def _call_after_batch(self, now: float) -> None:
        """Answer the newest convener; not in the middle of a batch, unless that takes long."""
        meet = self._calls
        if meet is None or (self._computes and now < self._called_since + self.settings.timing.batch):
            return
        self._calls = None
        if meet.instance == self.voter.instance and meet.ballot == self.voter.promised:
            self._send(self._caller, self._call(meet.ballot))

    def _on_call(self, sender: str, call: Call, now: float) -> None:
        if self.round is not None and sender not in self._goodbyes:
            self.round.called(sender, call, now)

    def _on_refused(self, sender: str, refused: Refused, now: float) -> None:
        self._highest = max(self._highest, refused.promised.number)
        if self.round is not None and refused.ballot == self.round.ballot:
            self.round.refused(refused.promised)

    def _on_goodbye(self, sender: str, goodbye: Goodbye, now: float) -> None:
        self._goodbyes[goodbye.session] = goodbye
        self._contacts.pop(goodbye.session, None)
        self._progress.forget(goodbye.session)
        if self.round is not None:
            self.round.is_absent(goodbye.session, now)

    def _on_plan(self, sender: str, plan: Plan, now: float) -> None:
        if plan.instance == self.voter.instance:
            self.reducing.begin(plan, now)

    def _on_reducing(self, sender: str, news: Reducing, now: float) -> None:
        if self.round is not None:
            self.round.reducing(sender, news, now)

    def _on_reduced(self, sender: str, result: Reduced, now: float) -> None:
        if self.round is not None:
            self.round.reduced(sender, result, now)

    def _on_propose(self, sender: str, proposal: Propose, now: float) -> None:
        if self.chain is None or proposal.instance != self.voter.instance:
            self._send(sender, self._status(now))
            return
        if self.voter.promised is not None and proposal.ballot < self.voter.promised:
            self._send(sender, Refused(proposal.instance, proposal.ballot, self.voter.promised))
            return
        self._proposal, self._proposed_by = Accepted(proposal.ballot, proposal.header), sender
        self.fetching.want_header(proposal.header, [sender], now, is_new=True)

    def _vote(self) -> None:
        """Accept the proposal once its chunks are here."""
        proposal = self._proposal
        if proposal is None or not self.fetching.holds(needed(proposal.header)):
            return
        self._proposal = None
        if self.voter.accept(proposal.ballot, proposal.header):
            self._send(self._proposed_by, Vote(self.voter.instance, proposal.ballot, proposal.header.digest))

    def _on_vote(self, sender: str, vote: Vote, now: float) -> None:
        if self.round is not None:
            self.round.voted(sender, vote, now)

    def _on_commit(self, sender: str, commit: Commit, now: float) -> None:
        if self.chain is not None and commit.entry.header.previous == self.chain.tip.digest:
            self.catching_up.offered(sender, commit.entry, now)
        else:
            self.catching_up.claims(sender, commit.entry.header.head, self.head, now)

    # -- chunks and the log

    def _on_chunk(self, sender: str, chunk: Chunk, now: float) -> None:
        self.fetching.arrived(chunk.digest, now, sender)

    def _on_want(self, sender: str, want: Want, now: float) -> None:
        for digest in want.digests:
            if digest in self.fetching.held:
                self._send(sender, Chunk(digest))
        missing = tuple(digest for digest in want.digests if digest not in self.fetching.held)
        if missing:
            self._send(sender, Lacks(missing))

    def _on_lacks(self, sender: str, lacks: Lacks, now: float) -> None:
        self.fetching.lacks(lacks.digests, sender, now)

    def _on_want_log(self, sender: str, want: WantLog, now: float) -> None:
        if self.chain is None or not self.snapshots:
            return
        following = self.chain.after(want.after, MOST_ENTRIES) if want.after is not None else None
        if following is not None and all(self.fetching.holds(needed(one.header)) for one in following):
            self._send(sender, Log(tuple(following), None))
            return
        newest = self.snapshots[-1]
        self._send(sender, Log(tuple(self.chain.since(newest.step - quorum.WINDOW)), newest))

    def _on_log(self, sender: str, log: Log, now: float) -> None:
        self.catching_up.log(sender, log, self.chain, now)

    # -- after every event

    def _after(self, now: float) -> None:
        """Go on as far as this event allows."""
        self._deliver_to_self(now)
        self._vote()
        if self.catching_up.has_found:
            self._follow(now)
        if self.round is not None:
            self._lead(now)
        elif self._leads(now):
            self._convene(now)
        if self._to_self:
            self._after(now)

    def _deliver_to_self(self, now: float) -> None:
        while self._to_self:
            message = self._to_self.pop(0)
            self._handlers[type(message)](self.me.session, message, now)

    def _follow(self, now: float) -> None:
        loaded = self.catching_up.load(self.head)
        if loaded is not None:
            chain, snapshot = loaded
            self.buffers.drop()
            self.snapshots, self._logged = [snapshot], set()
            self._goes_on_from(chain)
            self._forget_old()
        while self.chain is not None and (entry := self.catching_up.next_entry(self.chain)) is not None:
            self._apply(entry, now)

    def _lead(self, now: float) -> None:
        assert self.round is not None
        self.round.advance(now)
        if self.round.phase is Phase.COMMITTED:
            entry = self.round.entry
            assert entry is not None
            self._commit(entry, now)
        elif self.round.phase is Phase.FAILED:
            is_stuck = self.round.lacks_chunks or not self.round.has_promises
            if is_stuck and self._no_quorum_since is None:
                self._no_quorum_since = now
            self._progress.round_closed(self.voter.instance, self.round.calls, now)
            self.round = None

    def _commit(self, entry: Entry, now: float) -> None:
        """Tell all, and apply it."""
        for session in self._contacts:
            self._send(session, Commit(entry))
        self.round = None
        self._apply(entry, now)
