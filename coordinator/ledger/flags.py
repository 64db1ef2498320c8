"""Flags about members, found in headers: a training loss far above the others'."""

import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from averaging.log.header import Header

ODD_LOSS = 1.0  # nats above the median; losses of batches of 30 samples differ by 0.3
ENOUGH_LOSSES = 3  # in a global step, fewer do not tell which one is odd
ODD_STEPS = 3  # global steps in a row with an odd loss that raise a flag


class Kind(str, Enum):
    """The subject of a flag."""

    LOSS = "loss"  # far above the others'


@dataclass(frozen=True)
class Flag:
    """Something about a peer that the organizer should know; `what` is one line."""

    kind: Kind
    user: str
    peer_id: str
    step: int
    what: str


@dataclass(frozen=True)
class SeenRound:
    """An update and its round: samples by peer id, and seconds from the coordinator's call to the commit, if any."""

    step: int
    samples: Mapping[str, float]
    gradient_norm: float
    seconds: float | None

    @property
    def total(self) -> int:
        """Samples of all members."""
        return round(sum(self.samples.values()))


class OddLosses:
    """Follows the members' losses, header by header."""

    def __init__(self) -> None:
        self._odd_for: dict[str, int] = {}  # global steps in a row, by session

    def flags(self, header: Header) -> list[Flag]:
        """Members whose loss has been far above the others' for `ODD_STEPS` steps with this header; each once."""
        losses = {one.session: one.loss for one in header.members if one.loss is not None}
        odd, flags = odd_ones(losses), []
        for member in header.members:
            session, count = member.session, self._odd_for.get(member.session, 0)
            if session in losses:
                self._odd_for[session] = count + 1 if session in odd else 0
            if session in odd and count + 1 == ODD_STEPS:
                what = f"has a training loss of {losses[session]:.2f}, the others of about {odd[session]:.2f}"
                flags.append(Flag(Kind.LOSS, member.user, session.partition(".")[0], header.step - 1, what))
        self._odd_for = {session: count for session, count in self._odd_for.items() if count}
        return flags


def odd_ones(losses: Mapping[str, float]) -> dict[str, float]:
    """Sessions whose mean loss (nats) in a global step is far above the median of all, with that median."""
    if len(losses) < ENOUGH_LOSSES:
        return {}
    median = statistics.median(losses.values())
    return {session: median for session, loss in losses.items() if not loss <= median + ODD_LOSS}
