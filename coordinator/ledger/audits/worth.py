"""Senders whose gradients agree less with the others' than those of people who bring less.

The more samples a gradient is a mean of, the more it agrees with the rest. Noise, gradients for the wrong words, and
those of far fewer samples than their sender says agree too little. So do gradients of a text that nobody else has: this
is something to show, and no reason to shut anybody out.
"""

import statistics
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from averaging.log.header import peer_of
from averaging.reduce.agreement import Agreement
from coordinator.ledger.audits.opposing_gradients import SURE, is_below_zero

AUDITS = 48  # of a peer, the last ones
FEWEST = 4  # senders that bring less, to compare it with


@dataclass(frozen=True)
class Less:
    """A session that agrees less."""

    session: str
    cosine: float  # with the others, mean of the audits
    usual: float  # of those that bring less


@dataclass
class _Known:
    cosines: deque[tuple[float, float]] = field(default_factory=lambda: deque(maxlen=AUDITS))  # its own, the usual one
    seen: int = 0  # the number of the newest audit


class Worth:
    """Follows audits, by peer: a new session changes nothing."""

    def __init__(self) -> None:
        self._known: dict[str, _Known] = {}
        self._audits = 0

    def less(self, agreement: Sequence[Agreement], weights: Mapping[str, int]) -> list[Less]:
        """Those that are to be named after this audit; each again after as many more.

        Args:
            agreement: of each sender with the others.
            weights: masked tokens that each has brought.
        """
        if not agreement:
            return []
        self._audits += 1
        found = []
        for session, cosines in compared(agreement, weights).items():
            known = self._known.setdefault(peer_of(session), _Known())
            known.cosines.append(cosines)
            known.seen = self._audits
            differences = [own - usual for own, usual in known.cosines]
            if len(differences) == AUDITS and is_below_zero(differences, SURE):  # of a text alone it is up to 3.7 times
                means = (statistics.fmean(each) for each in zip(*known.cosines, strict=True))
                found.append(Less(session, *means))
                known.cosines.clear()
        self._known = {peer: one for peer, one in self._known.items() if self._audits - one.seen < AUDITS}
        return found


def compared(agreement: Sequence[Agreement], weights: Mapping[str, int]) -> dict[str, tuple[float, float]]:
    """The cosine of each sender beside the usual one of those that bring less, where there are `FEWEST` of them."""
    found = {}
    for session, cosine, _ in agreement:
        lighter = [
            one.cosine for one in agreement if one.session != session and weights[one.session] <= weights[session]
        ]
        if len(lighter) >= FEWEST:
            found[session] = cosine, statistics.median(lighter)
    return found
