"""What a protocol machine is told at its start: facts of the run, on which all its peers agree, and times to wait."""

from dataclasses import dataclass, field
from typing import Literal

MOST_BATCHES = 4  # target batches that one member brings to a global step


@dataclass(frozen=True)
class Timeouts:
    """Seconds. They decide how soon something is tried, never whether it is safe."""

    report: float = 2.0  # between two reports of a peer
    meeting: float = 2.0  # that a meeting waits for peers that do not call
    batch: float = 1.0  # that a call waits for the end of a batch; less than a meeting lasts
    pieces: float = 3.0  # that a reducer waits for senders of which nothing comes
    sending: float = 90.0  # that it waits for senders at all; 18 million parameters over 2 Mbit/s take 75 s
    part: float = 5.0  # that a convener waits for a reducer that says nothing
    ballot: float = 20.0  # without any news, after which a convener begins a new ballot
    round: float = 120.0  # that a round may take while something moves, before others try
    resend: float = 1.0  # between two sendings of what may have been lost
    fetch: float = 1.5  # in which something has to come of what a source was asked for
    absence: float = 20.0  # without a message of a convener, or without a commit though the batch is full
    word: float = 300.0  # of a voter that says to convene, for a step: then others may take over
    succession: float = 3.0  # between two candidates that may take over
    forget: float = 60.0  # after which a silent peer is dropped from the view

    @property
    def reset(self) -> float:
        """Without a quorum, before the coordinator names new voters."""
        return 2 * self.absence + self.ballot


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
