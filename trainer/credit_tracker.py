"""What one peer has contributed, and how fast the swarm is, according to the headers of the log."""

import logging
import math
from collections.abc import Collection
from fractions import Fraction

from averaging.log.credit import contributions
from averaging.log.header import Entry, HeaderKind
from swarm.language import _, several

logger = logging.getLogger(__name__)

DECAY = 0.7  # per global step, of the samples and seconds that the swarm's speed comes from


class CreditTracker:
    """Adds up the headers that a peer has applied.

    Args:
        masked_fraction: of the tokens; headers count masked tokens only.
        enforces: see `averaging.log.credit`.
    """

    def __init__(self, masked_fraction: float, *, enforces: bool = False):
        self.steps = 0  # global steps that it contributed to
        self.rounds = 0  # that committed a step since this peer began
        self.failures = 0  # rounds that did not
        self.loss: float | None = None  # of the last global step, this peer's own
        self._recorded = self._swarm_samples = 0  # global steps of which the samples of all peers are known, and those
        self._recent_samples = self._recent_seconds = 0.0
        self.stepped_at: float | None = None  # when the newest step was taken
        self._samples = self._masked = Fraction(0)
        self._masked_fraction, self._enforces = masked_fraction, enforces
        self._newest = -2, 0  # step of the newest header, and number of the ballot that committed it

    @property
    def samples(self) -> int:
        """That this peer contributed."""
        return round(self._samples)

    @property
    def tokens(self) -> int:
        """In those samples, about."""
        return round(float(self._masked) / self._masked_fraction)

    def swarm_samples(self, step: int, target: int) -> int:
        """Of all peers, from the beginning of the run to a global step; one that was not recorded had the target."""
        return max(0, step - self._recorded) * target + self._swarm_samples

    @property
    def swarm_samples_per_second(self) -> float:
        """Of all peers, over the last global steps; 0.0 while it is not known."""
        return self._recent_samples / max(self._recent_seconds, 1e-3)

    def record(self, entry: Entry, sessions: Collection[str], now: float, *, is_replayed: bool = False) -> None:
        """Add the next header that was applied.

        Args:
            sessions: of this peer.
            now: seconds of any clock.
            is_replayed: the peer is catching up, and the time since the last header is not that of a global step.
        """
        header, number = entry.header, entry.certificate.ballot.number
        step, ballot = self._newest
        if header.step == step + 1 and entry.certificate.votes:  # none in small groups, whose ballots are not counted
            self.failures += max(0, number - ballot - 1)
        self._newest = header.step, number
        self._recorded += bool(entry.certificate.votes)
        if header.kind is not HeaderKind.UPDATE or not header.parts:
            return
        self.rounds += 1
        samples = sum(member.samples for member in header.members)
        self._swarm_samples += samples if entry.certificate.votes else 0  # a header of small groups tells of one group
        if self.stepped_at is not None and not is_replayed:
            self._recent_samples = DECAY * self._recent_samples + samples
            self._recent_seconds = DECAY * self._recent_seconds + now - self.stepped_at
        self.stepped_at = now
        own = [one for one in contributions(header, enforces=self._enforces) if one.session in sessions]
        others = sum(member.weight > 0 for member in header.members) - 1
        for one in own:
            self._samples, self._masked = self._samples + one.samples, self._masked + one.tokens
            self.loss = next(member.loss for member in header.members if member.session == one.session)
            words = "global step %d: brought %d samples, loss %.3f; averaged with %d others"
            logger.info(words, header.step, one.samples, math.nan if self.loss is None else self.loss, others)
        self.steps += bool(own)

    def thanks(self) -> str:
        """What the volunteer contributed, to be said when they leave."""
        if not self.samples and self.rounds:
            return _("Thank you for joining. None of your results were counted in a global step.")
        if not self.samples:
            return _("Thank you for joining. You left before a global step was done, so nothing was counted yet.")
        return several(
            "Thank you! You contributed {samples} samples ({tokens} tokens) to {steps} global step.",
            "Thank you! You contributed {samples} samples ({tokens} tokens) to {steps} global steps.",
            self.steps,
        ).format(samples=f"{self.samples:,}", tokens=f"{self.tokens:,}", steps=f"{self.steps:,}")
