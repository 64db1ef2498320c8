"""A peer of the log: the whole machine, made of the parts beside it.

The process around it hands in what happens, with the time, and carries out the actions in their order:

    machine.receive(sender, message, now)      machine.computed(weight, now)      machine.tick(now)
    for action in machine.take_actions(): ...
"""

import math
from collections.abc import Callable, Collection, Iterable
from typing import Any

from msgspec.structs import replace

from averaging.log.chain import Chain
from averaging.log.header import Ballot, Gap, Head, HeaderKind, SnapshotName
from averaging.protocol import messages
from averaging.protocol.actions import Action, Average, Loud
from averaging.protocol.commit.objections import members_objection
from averaging.protocol.credentials import Credentials, is_farewell
from averaging.protocol.messages import Contact, Message
from averaging.protocol.peer_components import Components
from averaging.protocol.rounds.parts import Planner, covers, equal_parts
from averaging.protocol.settings import Settings


class LogPeer:
    """One session of one peer."""

    def __init__(
        self,
        me: Contact,
        settings: Settings,
        credentials: Credentials,
        now: float,
        held: Iterable[str] = (),
        planner: Planner = equal_parts,
    ):
        self._components = own = Components(me, settings, credentials, now, held, planner)
        self.me = me
        self.session, self._contacts, self._trust = own.session, own.contacts, own.trust
        self.buffers, self.log, self.fetching, self.resting = own.buffers, own.log, own.fetching, own.resting
        self.reducing, self.backfilling, self.catching_up = own.reducing, own.backfilling, own.catching_up
        self.adopting, self.voting, self.auditing = own.adopting, own.voting, own.auditing
        self.progress, self.convening = own.progress, own.convening
        self._handlers: dict[type, Callable[[str, Any, float], None]] = {
            messages.Report: self.progress.on_report,
            messages.Status: self._on_status,
            messages.Meet: self._on_meet,
            messages.Call: self._on_call,
            messages.Refused: self.convening.on_refused,
            messages.Goodbye: self._on_goodbye,
            messages.Plan: self._on_plan,
            messages.Piece: self._on_piece,
            messages.Reducing: self.convening.on_news,
            messages.Reduced: self.convening.on_news,
            messages.Chunk: self._on_chunk,
            messages.Want: self.fetching.on_want,
            messages.Lacks: self.fetching.on_lacks,
            messages.WantProof: self.auditing.on_want,
            messages.ShownPiece: self.auditing.on_shown,
            messages.ShownAccount: self.auditing.on_shown,
            messages.Propose: self._on_propose,
            messages.Vote: self.convening.on_news,
            messages.Commit: self._on_commit,
            messages.WantLog: self.log.on_want_log,
            messages.Log: lambda sender, log, now: self.catching_up.log(sender, log, self.log.chain, now),
            messages.WantHeaders: self.backfilling.on_want_headers,
            messages.Headers: self.backfilling.on_headers,
        }

    # -- what the process tells

    def start(
        self,
        chain: Chain,
        snapshots: Iterable[SnapshotName],
        accepted: messages.Accepted | None = None,
        gaps: Iterable[Gap] = (),
        waited: float = 0.0,
    ) -> None:
        """Go on from a state that the process has: its own disk, or the beginning of a run.

        `accepted` was on the disk, too: one more header that may have been chosen, and no promise of this session.
        `gaps` are older headers that a coordinator lacks, `waited` the seconds for which it had no quorum.
        """
        self.backfilling.gaps = list(gaps)
        self._components.go_on_from(chain, snapshots)
        self.convening.waited_before = waited
        is_next = accepted is not None and accepted.header.previous == chain.tip.digest
        if accepted is not None and is_next and accepted.header.kind is HeaderKind.UPDATE:
            self.voting.voter.accepted = accepted
            self._contacts.learn_of(accepted)

    def rejoin(self, log: messages.Log | None, old: "LogPeer", now: float) -> None:
        """Go on from the log that the session before this one has rejoined for; None: from what others will tell."""
        self.backfilling.go_on_from(old.backfilling, None if old.log.chain is None else old.log.tip)
        if old.log.pinned is not None:  # an order stands until a header has it
            self.roll_back(old.log.pinned, old.fetching.parts_of([old.log.pinned]), now)
        self.catching_up.go_on_from(old.catching_up, log, now)
        self._after(now)

    def contacts(self, contacts: Iterable[Contact], now: float) -> None:
        """The peers that the DHT lists now; instead of a tick, when they have changed."""
        self._contacts.listed(contacts)
        self._forget_goodbyes()
        self.tick(now)

    def receive(self, sender: str, message: Message, now: float) -> None:
        """A message has come."""
        self.progress.heard(sender, now)
        self._handlers[type(message)](sender, message, now)
        self._after(now)

    def computes(self) -> None:
        """A batch was begun: a call waits for it for a moment, so that it is in this round and not in the next."""
        self.voting.computes = True

    def computed(self, weight: int, now: float, *, samples: int = 1, loss: float = math.nan) -> None:
        """The batch has ended; so many masked tokens of it count, from the newest state or the one before.

        `loss` is the sum over them, in nats. See `Buffers.has_room`.
        """
        self.voting.computes = False
        if weight and self.buffers.has_room(samples):
            self.buffers.add(weight, samples, loss)
            self.progress.computed(now)
        self.voting.call_after_batch(now)
        self._after(now)

    def averaged(self, done: Average, digest: str, now: float, excluded: Iterable[str] = (), loud: Loud = ()) -> None:
        """The process has done an `Average`, and holds the mean; senders of useless or loud pieces are named."""
        self.fetching.arrived(digest, now)
        self.reducing.averaged(done, digest, excluded, loud)
        self._after(now)

    def proposal_saved(self, ballot: Ballot, now: float) -> None:
        """The process has done the `SaveProposal` of a ballot."""
        self.convening.saved(ballot, now)
        self._after(now)

    def snapshot_made(self, step: int, digest: str, chunks: Iterable[str], now: float) -> None:
        """The process holds the state of a step, which was a snapshot step: a manifest and its chunks."""
        self.fetching.made(digest, chunks, now)
        self.log.snapshot_made(SnapshotName(step, digest))
        self.adopting.committed(self.log.tip.snapshot, self._contacts.others, now)
        self._after(now)

    def cannot_load(self, snapshot: str, now: float) -> str:
        """A snapshot is of no use; returns which session has told of it, if it was wanted. Another one is asked.

        If the machine has gone on from it already, a session without a state has to follow: see `rejoin`.
        """
        return self.catching_up.cannot_load(snapshot, self.head, now)

    def reached(self, step: int, now: float) -> None:
        """The process has the state of a step. From the first call on the machine goes only a few steps ahead of it."""
        self.catching_up.reached = step
        self._after(now)

    def roll_back(self, snapshot: str, chunks: Iterable[str], now: float) -> None:
        """The run's authority wants the state of a snapshot back; the process holds its manifest and chunks."""
        self.fetching.made(snapshot, chunks, now)
        self.log.pinned = snapshot

    def lost(self, session: str, now: float) -> None:
        """The connection to a peer has broken: it may have died, or come back at once."""
        self.convening.lost(session)
        self._after(now)

    def moving(self, session: str, now: float) -> None:
        """A part of a message has come from a peer, which is slow and not silent."""
        self.reducing.patience.heard(now)
        self.fetching.moving(session, now)
        self.reducing.moving(session, now)

    def tick(self, now: float) -> None:
        """Time has passed; call it twice a second or so."""
        self.fetching.tick(now)
        self.reducing.tick(now)
        self.catching_up.tick(self.log.head, now)
        self.voting.call_after_batch(now)
        self.resting.tick(self._contacts.others, now)
        self.progress.tick(now)
        self.backfilling.tick(now)
        self.auditing.tick(now)
        self._after(now)

    def leave(self) -> None:
        """Say goodbye; the process ends after it has sent what is in the actions."""
        goodbye = self.voting.goodbye(self.log.chain.tip.step if self.log.chain else -1)
        for session in self._contacts.others:
            self.session.send(session, goodbye)
        self.session.close()  # the goodbye is the last word: it says what this peer has promised and accepted

    def take_actions(self) -> list[Action]:
        """What the process has to do now, in this order."""
        return self.session.take()

    # -- state

    @property
    def head(self) -> Head | None:
        """Where this peer stands; None: it has no state yet."""
        return self.log.head

    @property
    def is_behind(self) -> bool:
        """Whether it has no state, or others have a newer one: what it computes will not count."""
        return self.log.chain is None or self.catching_up.is_behind(self.log.head)

    @property
    def others(self) -> Collection[str]:
        """Sessions that are listed and have not left."""
        return self._contacts.others

    def in_round(self, now: float) -> bool:
        """Whether this peer has called for the present step a while ago at most."""
        return self.voting.in_round(now)

    # -- messages that concern more than one part

    def _on_status(self, sender: str, status: messages.Status, now: float) -> None:
        if self._trust.heard(status.anchor, now):
            self.log.told(status.anchor)
        self.progress.on_status(sender, status, now)
        self.convening.on_status(sender, status, now)

    def _on_meet(self, sender: str, meet: messages.Meet, now: float) -> None:
        leads, choice = self._contacts.is_coordinator(sender), self.progress.choice
        self.voting.knows_of(meet.ballot, of_coordinator=leads and sender == meet.ballot.convener)
        if sender != meet.ballot.convener:
            return
        accepts = choice.accepts(sender, is_coordinator=leads, now=now)
        # a mere claim to be ahead does not matter: promising is always safe
        follows = self.log.chain is None or self.catching_up.follows(self.head)
        if meet.instance != self.voting.instance or follows or not accepts:
            self.session.send(sender, self.progress.status(now))
        elif self.voting.meet(meet, now):
            choice.other_ballot(meet.ballot, is_coordinator=leads, now=now)

    def _on_goodbye(self, sender: str, goodbye: messages.Goodbye, now: float) -> None:
        if sender != goodbye.farewell.session or not is_farewell(goodbye.farewell, self.session.credentials):
            return
        self._contacts.has_left(goodbye)
        self._contacts.learn_of(goodbye.accepted)
        self._forget_goodbyes()
        self.progress.views.forget(sender)
        self.convening.has_left(sender)

    def _forget_goodbyes(self) -> None:
        if self.log.chain is not None:
            self._contacts.forget_goodbyes(self.log.chain.tip)

    def _on_piece(self, sender: str, piece: messages.Piece, now: float) -> None:
        if self.reducing.awaits(sender, piece):
            self.progress.choice.round_moves(now)
        self.reducing.piece(sender, piece, now)

    def _on_chunk(self, sender: str, chunk: messages.Chunk, now: float) -> None:
        if self.reducing.is_reducer(sender):
            self.progress.choice.round_moves(now)
        self.fetching.on_chunk(sender, chunk, now)

    def _on_plan(self, sender: str, plan: messages.Plan, now: float) -> None:
        promised = self.voting.voter.promised
        is_its = sender == plan.ballot.convener and promised is not None and plan.ballot <= promised
        settings, closed = self.session.settings, self.buffers.closed
        is_right = covers(plan.parts, settings.chunks) and not members_objection(
            plan.members, settings, self._contacts, closed
        )
        if is_its and is_right and plan.instance == self.voting.instance:
            self.reducing.begin(plan, now)
            if plan.ballot == promised:
                is_believed = self._contacts.is_coordinator(sender)  # any other convener could tell all to rest
                self.resting.planned(plan if is_believed else replace(plan, resting=()), now)

    def _on_propose(self, sender: str, proposal: messages.Propose, now: float) -> None:
        if self.log.chain is None or proposal.header.previous != self.voting.instance:
            self.session.send(sender, self.progress.status(now))
        else:
            self.adopting.proposed(proposal.header.snapshot, [sender, *self._contacts.others], now)
            self.voting.propose(sender, proposal, now)

    def _on_call(self, sender: str, call: messages.Call, now: float) -> None:
        if call.accepted is not None and call.instance == self.voting.instance:
            self.adopting.proposed(call.accepted.header.snapshot, [sender, *self._contacts.others], now)
        self.convening.on_call(sender, call, now)

    def _on_commit(self, sender: str, commit: messages.Commit, now: float) -> None:
        header = commit.entry.header
        if self.log.chain is not None and header.previous == self.log.tip.digest:
            is_member = any(one.session == self.session.me.session for one in header.members)
            self.catching_up.offered(sender, commit.entry, self.log.chain, now, is_member=is_member)
        else:
            self.catching_up.claims(sender, header.head, self.head, now)

    # -- after every event

    def _after(self, now: float) -> None:
        """Go on as far as this event allows."""
        to_self = self.session.to_self
        while True:
            while to_self:
                message = to_self.popleft()
                self._handlers[type(message)](self.session.me.session, message, now)
            self.voting.vote()
            if self.catching_up.has_found:
                self._components.follow(now)
            self.adopting.go_on()
            committed = self.convening.go_on(now)
            if committed is not None:
                for session in self._contacts.others:
                    self.session.send(session, messages.Commit(committed))
                self._components.apply(committed, now)
            if not to_self:
                return
