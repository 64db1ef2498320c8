"""Credit: who brought what to the model, as the headers of the log say.

A header is entered once, however often it is read, and a session once for each header, so nothing has to be claimed
and nothing to be audited. What was brought to a chain that a voted header beat keeps its credit.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from statistics import median_low

from averaging.log.header import Header, HeaderKind
from averaging.log.shares import LOUDEST, counted, heard


def session_id(session: str) -> str:
    """What the ledger calls a session: 32 hexadecimal digits."""
    return hashlib.sha256(session.encode()).hexdigest()[:32]


@dataclass(frozen=True)
class Contribution:
    """What one session brought to one header."""

    header: str  # digest
    step: int
    session: str
    user: str
    tokens: Fraction  # masked tokens, times the share of the chunks of the mean that include them
    samples: Fraction  # times the same share


def contributions(header: Header, *, enforces: bool = False) -> Iterator[Contribution]:
    """What each member of a header is credited.

    Args:
        enforces: the run bounds what members count with (`access.robust: enforce`), and so their credit.
    """
    chunks = len(header.chunks)
    weights = [one.weight for one in header.members]
    bounds = counted([one.user for one in header.members], weights, header.on_probation) if enforces else weights
    loud = loudness(header) if enforces else {}
    for member, bound in zip(header.members, bounds, strict=True):
        missing = sum(len(one.chunks) for one in header.exclusions if one.session == member.session)
        if member.weight and chunks > missing:
            share = Fraction(chunks - missing, chunks)
            if enforces:
                share *= heard(loud.get(member.session, 1.0)) * bound / member.weight
            yield Contribution(
                header.digest, header.step, member.session, member.user, member.weight * share, member.samples * share
            )


def loudness(header: Header) -> dict[str, float]:
    """Sessions whose gradients were too large for their weight in more than half of the chunks, and how many times.

    A reducer says so of its part, so one that lies about others is heard only if it has most of the vector.
    """
    if header.kind is not HeaderKind.UPDATE:
        return {}
    said = [(dict(part.loud), len(part.chunks)) for part in header.parts]
    named = {session for loud, _ in said for session in loud}
    medians = {one: median_low([loud.get(one, 1.0) for loud, chunks in said for _ in range(chunks)]) for one in named}
    return {session: median for session, median in medians.items() if median > LOUDEST}
