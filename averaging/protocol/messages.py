"""What peers tell each other."""

from averaging.log.header import Ballot, Entry, Farewell, Head, Header, Member, SnapshotName
from averaging.log.packing import Packed


class Message(Packed, frozen=True, tag=True):
    """What one peer tells another. Its name comes first when it is sent."""


class Contact(Packed, frozen=True):
    """A peer as the DHT lists it."""

    session: str
    user: str
    reachable: bool  # accepts connections
    is_coordinator: bool = False
    proof: bytes = b""  # the session's signature and its pass


class Anchor(Packed, frozen=True):
    """A head that the run's authority has signed: its chain is the run's. So is the snapshot, which may be newer than
    the one that headers name.
    """

    head: Head
    snapshot: SnapshotName | None
    signature: bytes


# -- progress


class Report(Message, frozen=True):
    """To the convener, every two seconds and when it matters: where a peer stands, and what it has gathered."""

    head: Head | None  # None: it has no state yet
    samples: int  # in its buffers


class Status(Message, frozen=True):
    """The answer to a report; a convener sends it unasked, too."""

    head: Head | None
    ballot: Ballot | None  # the highest that this peer has promised for the next step
    convenes: bool  # it leads the next step
    gathered: int = 0  # samples that a convener has heard of
    anchor: Anchor | None = None  # the newest one of its chain


class Groups(Message, frozen=True):
    """In a run of small groups: the batch is there, and these peers take the step after this one together."""

    step: int
    members: tuple[str, ...]  # sessions that accept connections
    clients: tuple[str, ...]  # sessions of those that do not


# -- meeting: the first phase of Paxos ---------------------------------------------------------------------------------


class Meet(Message, frozen=True):
    """Convener to all: close your buffers and call. Promise requests of single-decree Paxos."""

    instance: str  # digest of the newest header: the decision is about what follows it
    ballot: Ballot


class Accepted(Packed, frozen=True):
    """A header that a voter has accepted, and in which ballot."""

    ballot: Ballot
    header: Header
    contacts: tuple[Contact, ...] = ()  # of sessions to which it gives power, for those that do not know them


class Offer(Packed, frozen=True):
    """A closed buffer of gradients."""

    number: int
    weight: int  # masked tokens
    samples: int
    loss: float | None  # sum over the masked tokens, in nats; None: it is not known


class Bandwidth(Packed, frozen=True):
    """What a peer's line carries, in Mbit/s."""

    upload: float
    download: float


class Call(Message, frozen=True):
    """The answer: what this peer brings, and its promise to accept nothing in a lower ballot."""

    instance: str
    ballot: Ballot
    buffers: tuple[Offer, ...]
    accepted: Accepted | None
    bandwidth: Bandwidth | None = None  # None: it has not been measured
    speed: float = 0.0  # samples a second that this peer computes, or would; 0: none
    rests: bool = False  # it computes none, as a plan has told it
    connected: tuple[str, ...] = ()  # sessions, without a relay: of a peer that accepts no connections

    @property
    def samples(self) -> int:
        """In all of its buffers."""
        return sum(offer.samples for offer in self.buffers)

    @property
    def weight(self) -> int:
        """Masked tokens in all of its buffers."""
        return sum(offer.weight for offer in self.buffers)


class Refused(Message, frozen=True):
    """A ballot is too low for this peer."""

    ballot: Ballot  # that was refused
    promised: Ballot


class Goodbye(Message, frozen=True):
    """Final for its session: what it has promised and accepted, so that a ballot need not wait for its vote."""

    farewell: Farewell  # what a convener shows others of it
    accepted: Accepted | None  # not signed: it counts for those that hear it from the session itself


# -- reducing


class Assignment(Packed, frozen=True):
    """Who reduces a run of chunks. A later attempt replaces an earlier one."""

    first: int
    count: int
    reducer: str
    attempt: int


class Plan(Message, frozen=True):
    """Convener to members: which member reduces which part in this ballot, and what each brings."""

    instance: str
    ballot: Ballot
    members: tuple[Member, ...]  # in the order of the sum
    parts: tuple[Assignment, ...]
    resting: tuple[str, ...] = ()  # sessions that compute no gradients from now on
    on_probation: tuple[str, ...] = ()  # users of members; their weight counts as 0; sorted
    seconds: float = 0.0  # that this round takes, as lines were measured; 0: that is not known

    def buffers_of(self, session: str) -> tuple[int, ...]:
        """The buffers that a member sends; empty for those that only receive."""
        return next((one.buffers for one in self.members if one.session == session), ())


class Piece(Message, frozen=True):
    """Member to reducer: its gradient in one chunk, the mean of the planned buffers. The process adds the numbers."""

    ballot: Ballot
    chunk: int
    attempt: int


class Reducing(Message, frozen=True):
    """Reducer to convener: pieces are still coming in."""

    ballot: Ballot
    first: int  # chunk of the part
    attempt: int


class Reduced(Message, frozen=True):
    """Reducer to convener: a part is done."""

    ballot: Ballot
    assignment: Assignment
    chunks: tuple[str, ...]  # digests
    missing: tuple[tuple[str, int], ...]  # sender and chunk
    loud: tuple[tuple[str, float], ...] = ()  # senders whose gradients were too large, as in `log.header.Part`


class Chunk(Message, frozen=True):
    """A chunk of an update, or a snapshot, by digest. The process adds the bytes and checks that they fit."""

    digest: str


class Want(Message, frozen=True):
    """Send me these."""

    digests: tuple[str, ...]


class Lacks(Message, frozen=True):
    """The answer where these are not here."""

    digests: tuple[str, ...]


# -- audits: the coordinator sums a chunk again ------------------------------------------------------------------------


class Receipt(Packed, frozen=True):
    """Of a piece that a reducer has summed."""

    session: str  # that has sent it
    digest: str
    signature: bytes  # of that session


class Account(Packed, frozen=True):
    """What a reducer says of one chunk."""

    mean: str  # digest
    receipts: tuple[Receipt, ...]  # in the order of the sum
    signature: bytes  # of the reducer


class WantProof(Message, frozen=True):
    """Coordinator to the members of a committed round: show your piece of a chunk, and to its reducer: your account."""

    instance: str
    ballot: Ballot
    chunk: int


class ShownPiece(Message, frozen=True):
    """The answer of a sender. The process adds the piece, as it was sent and signed."""

    instance: str
    ballot: Ballot
    chunk: int


class ShownAccount(Message, frozen=True):
    """The answer of the reducer. The process adds the account."""

    instance: str
    ballot: Ballot
    chunk: int


# -- commit: the second phase of Paxos, and its result -----------------------------------------------------------------


class Propose(Message, frozen=True):
    """Convener to voters, and to members, which fetch what they lack: accept this header."""

    ballot: Ballot
    header: Header
    contacts: tuple[Contact, ...] = ()  # as above


class Vote(Message, frozen=True):
    """A voter holds all chunks of the header and has accepted it."""

    ballot: Ballot
    digest: str
    signature: bytes = b""


class Commit(Message, frozen=True):
    """A header with the votes that committed it."""

    entry: Entry
    contacts: tuple[Contact, ...] = ()  # of members of a small group that have left, for their credit


# -- catching up


class WantLog(Message, frozen=True):
    """Tell me what follows the head at which I stand, or else a snapshot and what follows it."""

    head: Head | None  # None: I have no state yet
    known: Head | None = None  # the newest one that is the run's for sure, whether I have its state or not


class Log(Message, frozen=True):
    """Entries of the log, oldest first. With a snapshot they begin early enough to choose voters by them."""

    entries: tuple[Entry, ...]
    snapshot: SnapshotName | None  # to be loaded first; the entry of its step is among the entries
    anchor: Anchor | None = None  # the newest one of the chain
    goes_on: bool = False  # these are the first ones of a log that is too long; ask again, as far as they prove it


class WantHeaders(Message, frozen=True):
    """Give me the header of a step with this digest, and those before it."""

    step: int
    digest: str


class Headers(Message, frozen=True):
    """Entries of the log, oldest first, up to the one that was asked for; some of those before it."""

    entries: tuple[Entry, ...]
