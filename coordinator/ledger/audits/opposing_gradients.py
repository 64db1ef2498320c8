"""Senders whose gradients point against those of the others, audit after audit.

A single audit says little: gradients of honest peers are mostly noise, and in one chunk of one step any two of them may
point apart. What counts is the mean over some audits beside its own error, as in a t-test.
"""

import statistics
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import sqrt

from averaging.log.header import peer_of
from averaging.reduce.agreement import Agreement

AUDITS = 12  # of a peer, the last ones, after which it may be named; after twice as many it may be sure
LIKELY, SURE = 3.0, 4.0  # times the error of the mean, below zero
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
    since: int = 0  # audits of it after it was named
    seen: int = 0  # the number of the newest one

    @property
    def mean(self) -> float:
        return statistics.fmean(self.last)


class Directions:
    """Follows the cosines of senders with the others, audit by audit, by peer: a new session changes nothing."""

    def __init__(self) -> None:
        self._known: dict[str, _Known] = {}
        self._audits = 0

    def against(self, agreement: Sequence[Agreement]) -> list[Against]:
        """Those that are to be named after this audit; each again after some more audits at the earliest.

        To honest senders "the others" are the liars, too, and some liars together make honest ones point away from
        them, but less. So nobody is named that does so less than half as much as another one in the same time; and
        once one is sure to be against the others, all begin anew, as without it the others are different.
        """
        if not agreement:
            return []
        self._audits += 1
        for one in agreement:
            known = self._known.setdefault(peer_of(one.session), _Known())
            known.last.append(one.cosine)
            known.since, known.seen = known.since + 1, self._audits
        self._known = {peer: one for peer, one in self._known.items() if self._audits - one.seen < 2 * AUDITS}
        lowest = min((one.mean for one in self._known.values() if len(one.last) >= AUDITS), default=0.0)
        found = []
        for session, *_ in agreement:
            known = self._known[peer_of(session)]
            last = list(known.last)
            if known.since < AUDITS or known.mean > lowest / 2:
                continue
            is_sure = len(last) == 2 * AUDITS and is_below_zero(last, SURE)
            if is_sure or is_below_zero(last[-AUDITS:], LIKELY):
                told = last if is_sure else last[-AUDITS:]
                found.append(Against(session, statistics.fmean(told), len(told), is_sure))
                known.since = 0
        if any(one.is_sure for one in found):
            self._known.clear()
        return found


def is_below_zero(values: Sequence[float], times: float) -> bool:
    """Whether the mean is so many times its own error below zero, and by `LEAST`."""
    error = statistics.stdev(values) / sqrt(len(values))
    return statistics.fmean(values) <= -max(LEAST, times * error)
