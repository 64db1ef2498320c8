"""What a protocol machine is told at its start: facts of the run, on which all its peers agree."""

from dataclasses import dataclass, field
from typing import Literal

from averaging.protocol.timeouts import Timeouts

MOST_BATCHES = 4  # target batches that one member brings to a global step


@dataclass(frozen=True)
class Settings:
    """Facts of the run, and the times to wait."""

    run: str  # fingerprint
    target_samples: int  # of a global step, at least
    chunks: int  # of the vector
    snapshot_every: int  # global steps
    most_masked: int = 2**62  # tokens of a sample
    last_step: int = 2**62  # of the run; only a rollback follows it
    robust: Literal["off", "watch", "enforce"] = "off"  # against loud gradients; see `access.robust` of the run file
    headers: int = 4096  # that peers keep for a coordinator that was away; one of 40 members has 3 KB
    timeouts: Timeouts = field(default_factory=Timeouts)

    @property
    def most_samples(self) -> int:
        """That one member brings to a global step."""
        return MOST_BATCHES * self.target_samples

    def believed(self, reported: int) -> int:
        """Samples that a report counts: no honest peer has more than it may bring."""
        return reported if reported <= self.most_samples else 0

    def may_bring(self, samples: int, weight: int) -> bool:
        """Whether a member can have so many samples and masked tokens for a global step."""
        return 0 <= samples <= self.most_samples and 0 <= weight <= samples * self.most_masked
