"""Progress towards the target batch: peers report what they have, a convener tells what all of them have.

DeDLOC (Diskin et al. 2021), section 3.1. A convener also speaks to those that do not report to it, so that they know
who leads. From the reports it knows where each peer stands, and for which of them a round waits.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass

from averaging.log.header import Head, extends, peer_of
from averaging.protocol.buffers import Buffers
from averaging.protocol.catching_up.catching_up import CatchingUp
from averaging.protocol.catching_up.held_log import HeldLog
from averaging.protocol.commit.voting import Voting
from averaging.protocol.contacts import Contacts
from averaging.protocol.messages import Report, Status
from averaging.protocol.rounds.convener_choice import ConvenerChoice
from averaging.protocol.rounds.reliability import Patience
from averaging.protocol.session import Session

ANSWERED = 0.2  # seconds after an answer in which a peer gets no other one, however often it reports
HEARD = 5.0  # seconds after its last word in which a peer is taken to be there
MISSES = 2  # rounds in a row that a peer may miss, or send nothing in, before it is not counted on
FORGIVEN = 20.0  # seconds after which it is counted on again
LATELY = 60.0  # seconds after its last new samples in which a peer is taken to train
MOST_DOUBLINGS = 4  # of that time, after further rounds that it misses


@dataclass
class PeerView:
    """One peer, as its reports show it."""

    head: Head | None
    samples: int
    heard_at: float
    missed: int = 0  # rounds in a row
    missed_at: float = float("-inf")  # the last of them
    brought_at: float = float("-inf")  # its last report of more samples than before
    answered_at: float = float("-inf")  # its last report that was

    @property
    def brings(self) -> bool:
        """Whether it has had samples once: it is a trainer."""
        return self.brought_at > float("-inf")

    def is_counted_on(self, now: float) -> bool:
        """Whether it can be expected to call."""
        return is_forgiven(self.missed, self.missed_at, now)


def is_forgiven(rounds: int, last: float, now: float) -> bool:
    """Whether a peer that was of no use in so many rounds in a row, the last one then, is counted on (again)."""
    return rounds < MISSES or now >= last + FORGIVEN * 2 ** min(rounds - MISSES, MOST_DOUBLINGS)


class PeerViews:
    """What a convener knows of the others, by their reports."""

    def __init__(self) -> None:
        self.peers: dict[str, PeerView] = {}
        self._silent: dict[str, tuple[int, float]] = {}  # rounds in a row without a piece of a peer, and the last one

    def note(self, session: str, head: Head | None, samples: int, now: float) -> PeerView:
        """Take in a report."""
        known = self.peers.setdefault(session, PeerView(head, 0, now))
        if samples > known.samples:
            known.brought_at = now
        known.head, known.samples, known.heard_at = head, samples, now
        return known

    def heard(self, session: str, now: float) -> None:
        """Take in any other word of a peer that has reported before."""
        if session in self.peers:
            self.peers[session].heard_at = now

    def present(self, instance: str, now: float) -> dict[str, PeerView]:
        """The peers that stand at a header and have been heard of lately."""
        return {
            session: peer
            for session, peer in self.peers.items()
            if peer.head is not None and peer.head.digest == instance and now - peer.heard_at <= HEARD
        }

    def expected(self, instance: str, now: float) -> dict[str, PeerView]:
        """The peers for which a meeting stays open: those that are counted on, or all if none of these brings anything.

        So one that reports samples and does not call spoils a few rounds: what it reports counts nothing then, until it
        has been in a round or is forgiven.
        """
        sending = {session: peer for session, peer in self.present(instance, now).items() if self.sends(session, now)}
        reliable = {session: peer for session, peer in self.peers.items() if self._is_reliable(session, now)}
        step = max((peer.head.step for peer in sending.values() if peer.head is not None), default=0)
        brings_some = any(peer.brings and peer.head and peer.head.step >= step - 1 for peer in reliable.values())
        return {one: peer for one, peer in sending.items() if one in reliable} if brings_some else sending

    def training(self, now: float) -> list[str]:
        """The peers that have been heard of lately and have brought something lately, wherever they stand."""
        return [
            session
            for session, peer in self.peers.items()
            if now - peer.heard_at <= HEARD and now - peer.brought_at <= LATELY
        ]

    def gathered(self, instance: str, now: float, counts: Callable[[str], bool] = lambda session: True) -> int:
        """The samples of expected peers whose session counts."""
        return sum(peer.samples for session, peer in self.expected(instance, now).items() if counts(session))

    def round_closed(self, instance: str, members: Collection[str], now: float) -> None:
        """Note who was there and who was not. Those that nobody counted on have missed nothing."""
        for session, peer in self.present(instance, now).items():
            if session in members:
                peer.missed = 0
            elif peer.is_counted_on(now):
                peer.missed, peer.missed_at = peer.missed + 1, now

    def committed(self, senders: Collection[str], silent: Collection[str], now: float) -> None:
        """Note which members of a round have sent pieces, and which have called and sent none."""
        for peer in map(peer_of, senders):
            self._silent.pop(peer, None)
        for peer in map(peer_of, silent):
            self._silent[peer] = self._silent.get(peer, (0, now))[0] + 1, now

    def sends(self, session: str, now: float) -> bool:
        """Whether pieces of it can be expected to come, so that rounds may plan with what it brings."""
        rounds, at = self._silent.get(peer_of(session), (0, now))
        return rounds < MISSES or now >= at + FORGIVEN

    def _is_reliable(self, session: str, now: float) -> bool:
        peer, silent = self.peers[session], self._silent.get(peer_of(session), (0, now))
        return now - peer.heard_at <= HEARD and peer.is_counted_on(now) and is_forgiven(*silent, now)

    def forget(self, session: str) -> None:
        """A peer has left."""
        self.peers.pop(session, None)

    def forget_silent(self, now: float, seconds: float) -> None:
        """Drop peers that have not been heard of for long."""
        for session in [one for one, peer in self.peers.items() if now - peer.heard_at > seconds]:
            del self.peers[session]
        longest = max(seconds, FORGIVEN * 2**MOST_DOUBLINGS)
        self._silent = {peer: one for peer, one in self._silent.items() if now - one[1] <= longest}


class BatchProgress:
    """Reports, answers reports, and counts what others have reported."""

    def __init__(
        self,
        session: Session,
        contacts: Contacts,
        log: HeldLog,
        buffers: Buffers,
        voting: Voting,
        catching_up: CatchingUp,
        patience: Patience,
        now: float,
    ):
        self.views = PeerViews()
        self.choice = ConvenerChoice(session.me, session.timeouts, patience, now)
        self._session, self._settings, self._send, self._contacts = session, session.settings, session.send, contacts
        self._patience = patience
        self._log, self._buffers, self._voting, self._catching_up = log, buffers, voting, catching_up
        self._reported_at, self._reported_samples = -1e9, 0
        self._gathered = 0  # samples of all peers, as the convener says
        self._spoke_at = -1e9

    def heard(self, session: str, now: float) -> None:
        """A message of a peer has come."""
        self._patience.heard(now)
        self.views.heard(session, now)

    def leads(self, now: float) -> bool:
        """Whether this peer is to convene the next header."""
        chain = self._log.chain
        return (
            chain is not None
            and self.choice.leads(chain.tip, self._contacts.others, now)
            and not self._catching_up.is_behind(chain.tip.head)
        )

    def is_full(self, now: float) -> bool:
        """Whether a round is due: the batch is there, or others say so and no commit has come for long."""
        tip = self._log.tip
        has_all = self._gathered_here(tip.digest, now) >= self._settings.target_samples or self.choice.is_stalled(now)
        return has_all and tip.step < self._settings.last_step

    def new_step(self) -> None:
        """A header was applied: the batch is empty again."""
        self._gathered = 0
        self.choice.new_step()

    def computed(self, now: float) -> None:
        """Gradients were added to the buffers; report them now if they may be what the batch lacks."""
        missing = max(0, self._settings.target_samples - self._gathered)
        news = self._buffers.samples - self._reported_samples
        if news * 2 * max(1, len(self._contacts.others)) >= missing:
            self.report(now)

    def tick(self, now: float) -> None:
        """Report, and speak, when it is time for it."""
        timeouts = self._settings.timeouts
        if now >= self._reported_at + timeouts.report:
            self.views.forget_silent(now, timeouts.forget)
            self.report(now)
        if now >= self._spoke_at + timeouts.report and self.leads(now):
            self._speak(now)

    def report(self, now: float) -> None:
        """Say where this peer stands and what it has."""
        head, samples = self._log.head, self._buffers.samples
        self._reported_at, self._reported_samples = now, samples
        self.views.note(self._contacts.me.session, head, samples, now)
        tip = self._log.chain.tip if self._log.chain is not None else None
        if not self._session.me.is_coordinator:  # several voters may lead at a time, and each needs to know of all
            message = Report(head, samples)
            for session in self.choice.report_to(tip, self._contacts.others, now):
                self._send(session, message)

    def _speak(self, now: float) -> None:
        """Tell those that do not report to this convener."""
        self._spoke_at = now
        self.choice.speaks(now)
        present = self.views.present(self._voting.instance, now)
        status = self.status(now)
        for session in self._contacts.others:
            if session not in present:
                self._send(session, status)

    def gathered(self, now: float) -> int:
        """Samples of all peers towards the next step, as far as this one knows."""
        if self.leads(now):
            return self._gathered_here(self._voting.instance, now)
        counts = self._session.me.user not in self._session.on_probation  # else the convener says whether it does
        return max(self._gathered, self._buffers.samples if counts else 0)

    def ignored(self, now: float) -> frozenset[str]:
        """Users whose samples do not count towards the batch: those on probation, as long as another user trains.

        A user trains if one of its sessions has reported new samples lately, whichever header that session is at.
        """
        doubted = self._session.on_probation
        if not doubted or not any(self._is_other(session, doubted) for session in self.views.training(now)):
            return frozenset()
        return doubted

    def _gathered_here(self, instance: str, now: float) -> int:
        ignored = self.ignored(now)
        return self.views.gathered(instance, now, lambda session: not ignored or self._is_other(session, ignored))

    def _is_other(self, session: str, users: Collection[str]) -> bool:
        """Whether a session belongs to a user outside of these; False if it is not listed: its user is unknown."""
        contact = self._contacts.get(session)
        return contact is not None and contact.user not in users

    def status(self, now: float) -> Status:
        """Where this peer stands, and whether it leads."""
        leads = self.leads(now)
        gathered = self._gathered_here(self._voting.instance, now) if leads else 0
        return Status(self._log.head, self._voting.voter.promised, leads, gathered, self._log.anchor)

    def on_report(self, sender: str, report: Report, now: float) -> None:
        """A peer says what it has."""
        peer = self.views.note(sender, report.head, self._settings.believed(report.samples), now)
        if report.head is not None:
            self._catching_up.claims(sender, report.head, self._log.head, now)
        if now >= peer.answered_at + ANSWERED:
            peer.answered_at = now
            self._send(sender, self.status(now))

    def on_status(self, sender: str, status: Status, now: float) -> None:
        """A peer says where it stands; if it convenes, what all of them have."""
        self._voting.knows_of(status.ballot)
        if status.head is None:
            return
        ours: Head | None = self._log.head
        self._catching_up.claims(sender, status.head, ours, now)
        contact = self._contacts.others.get(sender)
        if not status.convenes or contact is None:
            return
        is_here = status.head == ours
        is_ahead = ours is None or (status.head.step > ours.step and extends(status.head, ours))
        is_ahead = is_ahead and not self._catching_up.is_doubted(sender, now)
        if is_ahead or (is_here and (contact.is_coordinator or sender in self._log.tip.voters)):
            self._gathered = status.gathered
            has_all = is_here and status.gathered >= self._settings.target_samples
            self.choice.heard(contact, has_all, now)
            if is_here and not has_all:
                self._voting.round_failed()
