"""Senders whose gradients point against those of the others, audit after audit.

A single audit says little: gradients of honest peers are mostly noise, and in one chunk of one step any two of them may
point apart. What counts is the mean over some audits beside its own error, as in a t-test.
"""

import statistics
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import sqrt

from averaging.log.header import peer_of

AUDITS = 12  # of a peer, the last ones, after which it may be named; after twice as many it may be sure
LIKELY, SURE = 3.0, 4.0  # times the error of the mean cosine, below zero
LEAST = 0.03  # below zero, too; the cosine of honest gradients that are all noise is about 0


@dataclass(frozen=True)
class Against:
    """A session that points against the others."""

    session: str
    cosine: float  # mean of the audits
    audits: int
    is_sure: bool  # in the long run, so that it can be shut out


@dataclass
class _Known:
    last: deque[float] = field(default_factory=lambda: deque(maxlen=2 * AUDITS))
    since: int = 0  # audits after it was named


class Directions:
    """Follows the cosines of senders with the others, audit by audit, by peer: a new session changes nothing."""

    def __init__(self) -> None:
        self._known: dict[str, _Known] = {}

    def against(self, agreement: Iterable[tuple[str, float]]) -> list[Against]:
        """Those that are to be named after this audit; each again after some more audits at the earliest."""
        found = []
        for session, cosine in agreement:
            known = self._known.setdefault(peer_of(session), _Known())
            known.last.append(cosine)
            known.since += 1
            last = list(known.last)
            is_sure = len(last) == 2 * AUDITS and _is_against(last, SURE)
            if known.since >= AUDITS and (is_sure or _is_against(last[-AUDITS:], LIKELY)):
                told = last if is_sure else last[-AUDITS:]
                found.append(Against(session, statistics.fmean(told), len(told), is_sure))
                known.since = 0
        return found


def _is_against(cosines: Sequence[float], times: float) -> bool:
    error = statistics.stdev(cosines) / sqrt(len(cosines))
    return statistics.fmean(cosines) <= -max(LEAST, times * error)
