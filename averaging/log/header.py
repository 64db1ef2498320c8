"""Headers: what one global step adds to the log of a run, and the proof that peers agreed on it.

A header names the one before it by digest, so that headers form a chain. It is encoded once: a header that another
convener proposes again keeps its bytes, and with them its digest.
"""

import functools
import hashlib
import itertools
import math
from collections.abc import Collection, Iterable, Mapping
from enum import Enum

from averaging.log.packing import Packed, pack

FORMAT = 4  # of the encoding below
MOST_RESETS = 64  # that a header carries, the newest ones of its chain: a long run may have been reset every night


def peer_of(session: str) -> str:
    """The peer that has begun a session. It may begin any number, so what is held against one counts for all."""
    return session.partition(".")[0]


class HeaderKind(str, Enum):
    """What a header does to the state."""

    GENESIS = "genesis"  # names the state that the run begins with
    UPDATE = "update"  # applies a mean gradient
    ROLLBACK = "rollback"  # takes the state of a snapshot, by order of the run's authority
    GROUP = "group"  # changes nothing: says what one of many small groups has averaged
    RESET = "reset"  # names new voters without the votes of the old ones; signed by the run's authority


class Ballot(Packed, frozen=True, order=True):
    """One try of one convener to have a header committed; it proposes at most one header in it."""

    number: int
    convener: str  # session


class Member(Packed, frozen=True):
    """What one session brought to a global step."""

    session: str
    user: str
    buffers: tuple[int, ...]  # numbers of its gradient buffers, each in at most one header of a chain
    weight: int  # masked tokens behind its gradient
    reachable: bool  # accepts connections
    samples: int = 0  # behind its gradient
    loss: float | None = None  # mean over the masked tokens, in nats; None: it is not known


class Part(Packed, frozen=True):
    """A run of chunks of the update, and the member that reduced them."""

    reducer: str  # session
    chunks: tuple[str, ...]  # digests, in the order of the vector
    loud: tuple[tuple[str, float], ...] = ()  # senders, and how many times too large their gradients are


def plausible(loud: Iterable[tuple[str, float]], members: Iterable[Member]) -> tuple[tuple[str, float], ...]:
    """What can be true of what a reducer says of loud senders: each once, in their order."""
    senders = {member.session for member in members if member.buffers}
    return tuple(sorted({one: times for one, times in loud if one in senders and 1.0 < times < math.inf}.items()))


class Exclusion(Packed, frozen=True):
    """A sender whose gradient is missing from some chunks of the mean."""

    session: str
    chunks: tuple[int, ...]  # indices in the whole vector, in their order


def exclusions_of(missing: Mapping[str, Collection[int]]) -> tuple[Exclusion, ...]:
    """Of the chunks that each sender misses, in the one order that headers have."""
    return tuple(Exclusion(one, tuple(sorted(set(missing[one])))) for one in sorted(missing) if missing[one])


class SnapshotName(Packed, frozen=True):
    """A state that can be loaded."""

    step: int
    digest: str  # of its manifest


class Reset(Packed, frozen=True):
    """A place at which a chain was reset; no two resets of a run have the same ballot."""

    step: int
    ballot: Ballot


def _check_resets(resets: tuple[Reset, ...]) -> None:
    """
    Raises:
        ValueError: no chain has such resets; the message that they came in is refused.
    """
    if len(resets) > MOST_RESETS:
        raise ValueError(f"{len(resets)} resets, more than {MOST_RESETS}")
    if any(after.step <= before.step for before, after in itertools.pairwise(resets)):
        raise ValueError("resets out of order")


class Header(Packed, frozen=True, tag=FORMAT, dict=True):
    """One entry of the log."""

    run: str  # fingerprint of the settings on which all peers agree
    step: int
    kind: HeaderKind
    previous: str  # digest of the header before this one; empty for the first
    ballot: Ballot  # in which it was proposed first
    members: tuple[Member, ...] = ()
    parts: tuple[Part, ...] = ()
    exclusions: tuple[Exclusion, ...] = ()
    voters: tuple[str, ...] = ()  # sessions that decide about the next header
    tie_breaker: str = ""  # session of the coordinator that needs only half of them
    snapshot: SnapshotName | None = None  # the newest one to load; of a rollback: its target
    resets: tuple[Reset, ...] = ()  # of this chain, this header included; the newest `MOST_RESETS`
    order: bytes = b""  # of a reset or a rollback: the authority's signature of the header without it
    on_probation: tuple[str, ...] = ()  # users of members, whose weight counts as 0 in the mean; sorted

    def __post_init__(self) -> None:
        _check_resets(self.resets)

    @functools.cached_property
    def encoded(self) -> bytes:
        """The bytes that are hashed and sent."""
        return pack(self)

    @functools.cached_property
    def digest(self) -> str:
        """SHA-256 of the encoded header, in hex."""
        return hashlib.sha256(self.encoded).hexdigest()

    @functools.cached_property
    def head(self) -> "Head":
        """Where a peer stands that has applied this header last."""
        return Head(self.step, self.digest, self.resets)

    @functools.cached_property
    def chunks(self) -> tuple[str, ...]:
        """Digests of the whole update, in the order of the vector."""
        return tuple(digest for part in self.parts for digest in part.chunks)

    @property
    def loss(self) -> float | None:
        """Of the swarm, before this header: the mean over the masked tokens of members that tell theirs, in nats."""
        known = [(member.weight, member.loss) for member in self.members if member.weight and member.loss is not None]
        weight = sum(weight for weight, _ in known)
        return sum(weight * loss for weight, loss in known) / weight if weight else None

    @functools.cached_property
    def needed(self) -> tuple[str, ...]:
        """Digests of what a peer must hold to vote for it and to apply it: an update's chunks, or a snapshot."""
        if self.kind is HeaderKind.ROLLBACK:
            assert self.snapshot is not None
            return (self.snapshot.digest,)
        return self.chunks


class Head(Packed, frozen=True):
    """Where a peer stands: its newest header, and the resets that this carries."""

    step: int
    digest: str
    resets: tuple[Reset, ...] = ()

    def __post_init__(self) -> None:
        _check_resets(self.resets)


class Gap(Packed, frozen=True):
    """Older headers that are missing: the one of a step with this digest, and those before it down to another step."""

    step: int
    digest: str
    above: int  # the header of this step is held, or the chain begins after it


class Farewell(Packed, frozen=True):
    """That a session has left for good, and where it stood."""

    session: str
    instance: str  # digest of its newest header; empty if it had no state
    step: int  # of that header
    promised: Ballot | None  # in the decision about the header after it
    signature: bytes = b""  # of the session


class Certificate(Packed, frozen=True):
    """Why a header is committed: who accepted it in which ballot. A reset has the authority's signature instead."""

    ballot: Ballot
    votes: tuple[str, ...] = ()  # sessions of voters
    goodbyes: tuple[Farewell, ...] = ()  # of voters that had left for good
    signatures: tuple[bytes, ...] = ()  # of the votes, in their order


class Entry(Packed, frozen=True):
    """A header of the log with its certificate."""

    header: Header
    certificate: Certificate


def _first_resets_apart(theirs: Head, ours: Head) -> tuple[Reset | None, Reset | None]:
    """Of each chain the first reset that is not the other's, too, as far back as both heads tell."""
    begin = max((one.resets[0].step for one in (theirs, ours) if len(one.resets) == MOST_RESETS), default=0)
    told = ([reset for reset in one.resets if reset.step >= begin] for one in (theirs, ours))
    pairs = itertools.zip_longest(*told)
    return next(((a, b) for a, b in pairs if a != b), (None, None))


def supersedes(theirs: Head, ours: Head) -> bool:
    """Whether a peer at `ours` is to go over to `theirs`: it is ahead, or has a vote where our chain was reset.

    Votes choose at most one header a step between two resets, so chains part only at a reset, and the lists of resets
    tell which chain was voted for there.
    """
    their_reset, our_reset = _first_resets_apart(theirs, ours)
    if our_reset is None:
        if their_reset is None:
            return theirs.step > ours.step
        return ours.step < their_reset.step  # else we hold a voted header where they were reset
    if their_reset is None:
        return theirs.step >= our_reset.step
    if their_reset.step != our_reset.step:
        return their_reset.step > our_reset.step  # at the earlier step the other chain has a voted header
    return their_reset.ballot > our_reset.ballot


def shared_step(one: Head, other: Head) -> int:
    """The step up to which two chains of a run have the same headers."""
    parted_at = [reset.step for reset in _first_resets_apart(one, other) if reset is not None]
    return min(one.step, other.step, *(step - 1 for step in parted_at))


def extends(theirs: Head, ours: Head) -> bool:
    """Whether a chain with head `theirs` contains `ours`; the other chains that supersede it drop applied headers."""
    return shared_step(theirs, ours) == ours.step
