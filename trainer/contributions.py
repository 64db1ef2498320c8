"""What this session brought to the swarm: samples count once the round they went into has worked."""

import itertools
import logging
import math
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from swarm.records import CONTRIBUTIONS_KEPT, UNHEARD_TOLD
from trainer.averaging import RoundReport

logger = logging.getLogger(__name__)

UNHEARD_KEPT = 4096  # global steps: eleven hours without the coordinator, at ten seconds each
HEARD_ROUNDS = 8  # with the coordinator in a row, and as long as it may take to read, judge, write and copy a record:
HEARD_SECONDS = 75.0


@dataclass(frozen=True)
class Brought:
    """Samples of one peer that went into one global step; `loss` is their mean, in nats.

    `seen` are the samples of its group's members, by peer id, where this peer is the one to tell the coordinator.
    """

    step: int
    samples: int
    tokens: int
    loss: float
    seen: Mapping[str, float] = field(default_factory=dict)


@dataclass
class _Window:
    samples: int = 0
    tokens: int = 0
    loss_sum: float = 0.0


@dataclass
class _Hearing:
    """For how long the coordinator has been there while something was told."""

    rounds: int = 0  # in a row
    since: float = math.inf  # monotonic seconds

    def round_ended(self, *, assisted: bool, now: float) -> None:
        if self.rounds == 0:
            self.since = now
        self.rounds = self.rounds + 1 if assisted else 0

    def was_long_enough(self, now: float) -> bool:
        return self.rounds >= HEARD_ROUNDS and now >= self.since + HEARD_SECONDS


class Contributions:
    """Follows samples from the forward pass to the averaged step; `clock` gives monotonic seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.samples = 0  # in global steps, since the session began
        self.tokens = 0
        self.steps = 0  # global steps that they went into
        self.rounds = 0
        self.last_round = 0  # the number of the newest one that has ended
        self.failures = 0
        self.loss: float | None = None  # of the last global step, this peer's own
        self.recent: deque[Brought] = deque(maxlen=CONTRIBUTIONS_KEPT)
        self.unheard: deque[Brought] = deque(maxlen=UNHEARD_KEPT)  # older ones, of which the coordinator may not know
        self._clock = clock
        self._coordinator = _Hearing()
        self._portion = _Hearing()  # of those unheard, what is told now
        self._window = _Window()
        self._in_flight: dict[int, _Window] = {}  # by the number of the round

    def computed(self, samples: int, tokens: int, loss: float) -> None:
        """A batch was computed; its gradient waits for the next round. `loss` is its mean, in nats."""
        self._window.samples += samples
        self._window.tokens += tokens
        self._window.loss_sum += loss * samples

    def round_began(self, number: int) -> None:
        """All that was computed so far is on its way into the round of that number."""
        self._in_flight[number] = self._window
        self._window = _Window()

    def dropped(self) -> None:
        """All that was computed so far was thrown away: it belonged to parameters that were replaced."""
        self._window = _Window()

    def round_ended(self, report: RoundReport) -> None:
        """A round that worked turns what was in flight into a contribution; one that failed loses it."""
        window = self._in_flight.pop(report.number, None) or _Window()
        self.last_round = report.number
        if report.peers > 1 or report.problem:
            self.rounds += 1
        if report.problem:
            self.failures += 1
            return
        if window.samples == 0:
            return
        seen = {} if report.assisted or not report.weights else report.weights
        brought = Brought(report.step, window.samples, window.tokens, window.loss_sum / window.samples, seen)
        self.samples += brought.samples
        self.tokens += brought.tokens
        self.steps += 1
        self.loss = brought.loss
        self._keep(brought, assisted=report.assisted)
        logger.info(
            "global step %d: brought %d samples, %d tokens, loss %.3f; averaged with %d others in %.1f s",
            brought.step + 1,
            brought.samples,
            brought.tokens,
            brought.loss,
            report.peers - 1,
            report.seconds,
        )

    def to_tell(self) -> list[Brought]:
        """What a record has room for, oldest first: of what was not heard the newest, as all peers do.

        So peers tell of the same global steps at the same time, and can be witnesses for each other.
        """
        first = max(0, len(self.unheard) - UNHEARD_TOLD)
        return [*itertools.islice(self.unheard, first, None), *self.recent]

    def _keep(self, brought: Brought, *, assisted: bool) -> None:
        """Tell of it until the coordinator has been there for long enough; then of older ones that it did not hear."""
        now = self._clock()
        for hearing in (self._coordinator, self._portion):
            hearing.round_ended(assisted=assisted, now=now)
        if self._portion.was_long_enough(now):
            for _ in range(min(UNHEARD_TOLD, len(self.unheard))):
                self.unheard.pop()
            self._portion = _Hearing()
        elif len(self.recent) == CONTRIBUTIONS_KEPT and not self._coordinator.was_long_enough(now):
            self.unheard.append(self.recent[0])
        self.recent.append(brought)

    def thanks(self) -> str:
        """What the person brought, to be said when they leave."""
        if not self.samples:
            return "Thank you for joining. You left before a global step was done, so nothing was counted yet."
        return (
            f"Thank you! You contributed {self.samples:,} samples ({self.tokens:,} tokens) "
            f"to {self.steps:,} global step{'s' if self.steps > 1 else ''}."
        )
