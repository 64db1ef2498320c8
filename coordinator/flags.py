"""What the coordinator can find out about a peer, and what it saw of a round."""

import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

ODD_LOSS = 1.0  # nats above the median from which a loss is odd; batches of 30 samples differ by 0.3
ENOUGH_LOSSES = 3  # of a global step, to tell which one is odd


class Kind(str, Enum):
    """What a flag is about."""

    CLAIM = "claim"  # samples that no group got
    LATE = "late"  # a claim of a global step of long ago
    LOSS = "loss"  # far above the others'
    NUMBERS = "numbers"  # not finite


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
    """A round of averaging as the coordinator saw it; `samples` by peer id, without its own, which are none."""

    step: int
    samples: Mapping[str, float]
    gradient_norm: float
    seconds: float

    @property
    def total(self) -> int:
        """Samples of all members."""
        return round(sum(self.samples.values()))


def odd_ones(losses: Mapping[str, float]) -> dict[str, float]:
    """Peers whose mean loss (nats) in a global step is far above the usual, with the median of all."""
    if len(losses) < ENOUGH_LOSSES:
        return {}
    usual = statistics.median(losses.values())
    return {peer: usual for peer, loss in losses.items() if loss > usual + ODD_LOSS}
