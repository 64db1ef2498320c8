"""The acceptor of Paxos: what a peer has promised and accepted, and its answers to conveners."""

from collections.abc import Callable

from msgspec.structs import replace

from averaging.log.header import Ballot, Farewell, Header
from averaging.protocol import credentials as signed
from averaging.protocol.buffers import Buffers
from averaging.protocol.contacts import Contacts
from averaging.protocol.fetching import Fetching
from averaging.protocol.messages import Accepted, Call, Goodbye, Meet, Propose, Refused, Vote
from averaging.protocol.resting import Resting
from averaging.protocol.session import Session

LEAP = 1_000_000  # by which a ballot's number may be above those that are known; else one message would use them all up


class Voter:
    """Its memory of the decision about one header, which ends with the process: a restarted one is another session."""

    def __init__(self, session: str, instance: str):
        self.session, self.instance = session, instance  # of the voter; digest of the header before
        self.promised: Ballot | None = None
        self.accepted: Accepted | None = None

    def promise(self, ballot: Ballot) -> bool:
        """Accept nothing below this ballot from now on; False if a higher one was promised."""
        if self.promised is not None and ballot < self.promised:
            return False
        self.promised = ballot
        return True

    def accept(self, ballot: Ballot, header: Header) -> bool:
        """Vote for a header, whose chunks this peer holds.

        False if a higher ballot was promised, or if its convener has proposed another header in the same one.
        """
        if self.accepted is not None and self.accepted.ballot == ballot and self.accepted.header != header:
            return False
        if not self.promise(ballot):
            return False
        self.accepted = Accepted(ballot, header)
        return True


class Voting:
    """This peer's part in the decision about the next header. Peers that are no voters answer, and are not counted.

    Args:
        objection: to a header that others propose, or say to have accepted; empty: there is none.
    """

    def __init__(
        self,
        session: Session,
        contacts: Contacts,
        buffers: Buffers,
        fetching: Fetching,
        objection: Callable[[Header], str],
        resting: Resting,
    ):
        self.voter = Voter(session.me.session, "")
        self.highest = 0  # ballot number that this peer knows of
        self.objected: tuple[Header, str] | None = None  # the last header that it had something against, and what
        self.computes = False  # a batch is being computed
        self._session, self._timeouts, self._send = session, session.timeouts, session.send
        self._credentials, self._contacts = session.credentials, contacts
        self._buffers, self._fetching = buffers, fetching
        self.objection, self._resting = objection, resting
        self._called_at, self._is_in_vain = -1e9, False  # the last call, and whether its round has failed
        self._meet: Meet | None = None  # that waits for the end of the batch
        self._met_at = 0.0
        self._proposal: Accepted | None = None  # that waits for chunks

    @property
    def instance(self) -> str:
        """Digest of the header before the one that is decided about."""
        return self.voter.instance

    def seconds_since_call(self, now: float) -> float | None:
        """Since this peer called for the present step last; None: it has not."""
        return now - self._called_at if self._called_at >= 0 else None

    def new_step(self, instance: str, ballot: Ballot) -> None:
        """A header was applied that was proposed in this ballot first."""
        self.highest = max(self.highest, ballot.number)
        self.voter = Voter(self.voter.session, instance)
        self._proposal = self._meet = None
        self._called_at = -1e9

    def round_failed(self) -> None:
        """Members have brought too little, and the convener waits for more."""
        self._is_in_vain = True

    def in_round(self, now: float) -> bool:
        """Whether this peer has called for the present step a while ago at most."""
        return now < self._called_at + self._timeouts.ballot and not self._is_in_vain

    def knows_of(self, ballot: Ballot | None, *, of_coordinator: bool = False) -> None:
        """There was such a ballot, so that one of this peer has to be higher.

        Args:
            of_coordinator: a coordinator has opened it itself. It may have been told of ballots that this peer was not
                told of, so that it has to leap.
        """
        if ballot is not None and (of_coordinator or not self.is_leap(ballot)):
            self.highest = max(self.highest, ballot.number)

    def is_leap(self, ballot: Ballot) -> bool:
        """Whether no honest convener comes to such a ballot."""
        return ballot.number > self.highest + LEAP

    def new_ballot(self) -> Ballot:
        """One of this peer, which it promises itself."""
        self.highest += 1
        ballot = Ballot(self.highest, self.voter.session)
        self.voter.promise(ballot)
        return ballot

    def call(self, ballot: Ballot, now: float) -> Call:
        """What this peer says to a convener that it has promised a ballot."""
        self._called_at, self._is_in_vain = now, False
        own, rests = self._session, self._resting.rests
        return Call(
            self.instance,
            ballot,
            self._buffers.offer(),
            self._accepted,
            own.bandwidth,
            own.speed,
            rests,
            own.connected,
        )

    @property
    def _accepted(self) -> Accepted | None:
        """For others to believe it."""
        accepted = self.voter.accepted
        return None if accepted is None else replace(accepted, contacts=self._contacts.evidence(accepted.header))

    def meet(self, meet: Meet, now: float) -> bool:
        """Answer the convener of the present step, if need be after the batch; False: a higher ballot was promised."""
        if self.is_leap(meet.ballot):
            return False
        if self.voter.promise(meet.ballot):
            if self._meet != meet:
                self._meet, self._met_at = meet, now
            self.call_after_batch(now)
            return True
        assert self.voter.promised is not None
        self._send(meet.ballot.convener, Refused(meet.ballot, self.voter.promised))
        return False

    def call_after_batch(self, now: float) -> None:
        """Call for the newest ballot; not in the middle of a batch, unless that takes long."""
        if self._meet is None or (self.computes and now < self._met_at + self._timeouts.batch):
            return
        meet, self._meet = self._meet, None
        if meet.ballot == self.voter.promised:
            self._send(meet.ballot.convener, self.call(meet.ballot, now))

    def propose(self, sender: str, proposal: Propose, now: float) -> None:
        """Get what a proposal for the present step needs; `vote` follows."""
        if self.voter.promised is not None and proposal.ballot < self.voter.promised:
            self._send(sender, Refused(proposal.ballot, self.voter.promised))
            return
        if self.is_leap(proposal.ballot):
            return
        self._contacts.learn_of(proposal)
        found = self.objection(proposal.header)
        if sender != proposal.ballot.convener or proposal.header.ballot > proposal.ballot:  # it was proposed first in
            found = "it is of another convener, or of a ballot to come"
        if found:
            self.objected = proposal.header, found
            return
        self._proposal = Accepted(proposal.ballot, proposal.header)
        self._fetching.want_header(proposal.header, [sender], now, is_new=True)

    def vote(self) -> None:
        """Accept the proposal once its chunks are here."""
        proposal = self._proposal
        if proposal is None or not self._fetching.holds(proposal.header.needed):
            return
        self._proposal = None
        if self.voter.accept(proposal.ballot, proposal.header):
            self._send(proposal.ballot.convener, self.signed_vote(proposal.ballot, proposal.header))

    def signed_vote(self, ballot: Ballot, header: Header) -> Vote:
        """For a header that this peer has accepted."""
        content = signed.vote(self.voter.session, self.instance, ballot, header.digest)
        return Vote(ballot, header.digest, self._credentials.sign(content))

    def goodbye(self, step: int) -> Goodbye:
        """The last word of this session, which stands at a step."""
        said = Farewell(self.voter.session, self.instance, step, self.voter.promised)
        return Goodbye(signed.signed_farewell(said, self._credentials), self._accepted)
