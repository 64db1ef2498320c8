"""What a machine asks of the process around it."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

from averaging.log.header import Entry, Gap, Header, SnapshotName
from averaging.protocol.messages import Accepted, Log, Message, Plan

Loud: TypeAlias = Iterable[tuple[str, float]]  # senders, and how many times too large their gradients are


@dataclass(frozen=True)
class Send:
    """Send a message. It may be lost."""

    to: str
    message: Message


@dataclass(frozen=True)
class Average:
    """Average these senders' pieces of a chunk in this order and encode the mean once; `averaged` answers."""

    plan: Plan
    chunk: int
    attempt: int
    senders: tuple[str, ...]


@dataclass(frozen=True)
class Audit:
    """Sum a chunk of a committed round again, from what senders and reducer have shown by now."""

    header: Header
    chunk: int
    users: tuple[tuple[str, str], ...]  # by session, as their passes say; a header is its convener's word


@dataclass(frozen=True)
class Observe:
    """See how far the pieces agree that this peer, a coordinator, has averaged itself in a committed round."""

    header: Header
    users: tuple[tuple[str, str], ...]  # as in `Audit`


@dataclass(frozen=True)
class SaveProposal:
    """Write header and chunks to disk, after all entries before it, and flush them; `proposal_saved` answers."""

    accepted: Accepted


@dataclass(frozen=True)
class SaveWaited:
    """Write to disk that a quorum for the next header has been missing for so long; a restart goes on counting."""

    instance: str  # digest of the header before it
    seconds: float


@dataclass(frozen=True)
class Apply:
    """`state[s+1] = step(state[s], update)`; the chunks are there. A coordinator writes the entry to disk."""

    entry: Entry
    seconds: float | None = None  # from this peer's last call to the commit; None: it was not in the round


@dataclass(frozen=True)
class Load:
    """Take over the snapshot, which is there: it is the state after the last of these headers.

    A coordinator writes them all to disk, for their credit and for the choice of voters.
    """

    entries: tuple[Entry, ...]  # oldest first
    snapshot: str
    gaps: tuple[Gap, ...] = ()  # headers that it lacks now


@dataclass(frozen=True)
class Compare:
    """Tell with `compared` whether another snapshot of a step is near to the own one, as numbers."""

    other: SnapshotName
    own: SnapshotName
    before: SnapshotName  # the one before, which tells how far the state has moved


@dataclass(frozen=True)
class Adopt:
    """Go on from another snapshot of a step: take its state, and the steps of these entries again."""

    snapshot: SnapshotName
    following: tuple[Entry, ...]


@dataclass(frozen=True)
class Credit:
    """Headers beside the chain, or older ones that were missing. A coordinator writes them to disk for their credit."""

    entries: tuple[Entry, ...]
    gaps: tuple[Gap, ...] | None = None  # headers that it lacks now; None: the same as before


@dataclass(frozen=True)
class Forget:
    """Chunks and snapshots that nobody will ask this peer for, unless it holds them again by now."""

    digests: tuple[str, ...]


@dataclass(frozen=True)
class Rejoin:
    """Start again as a new session from this log, whose snapshot is there: the chain of the old session has lost."""

    log: Log


# -- in a run of small groups


@dataclass(frozen=True)
class EncodeParameters:
    """Keep those of the newest state as chunks of the grid, exactly; `encoded` answers."""


@dataclass(frozen=True)
class TakeParameters:
    """The newest state gets the parameters in these chunks, which are there."""

    chunks: tuple[str, ...]  # digests


@dataclass(frozen=True)
class WriteSnapshot:
    """Of the newest state, for a peer that wants to load it; `snapshot_made` answers."""


Action: TypeAlias = (
    Send | Average | Audit | Observe | SaveProposal | SaveWaited | Apply | Load | Compare | Adopt | Credit | Forget
    | Rejoin | EncodeParameters | TakeParameters | WriteSnapshot
)  # fmt: skip
