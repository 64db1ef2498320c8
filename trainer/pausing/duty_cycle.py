"""Which part of the time the device computes, so that limits of temperature and power hold.

One proportional-integral controller for each limit, in velocity form: from a measurement to the next, the duty falls by
what was measured more, and moves by how far it is from the limit. The smallest duty of all of them counts.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from statistics import fmean as mean

from trainer.pausing.wishes import Wishes

MEASURE_EVERY = 0.5  # seconds
HOTTEST_OF = 8  # measurements: a device is hotter while it computes, and that is what counts
MEAN_OF = 24  # measurements of power, some batches and the time between them
BELOW = 1.0  # degrees below the limit that are aimed at: sensors tell whole degrees
SURPLUS = 0.5  # seconds of computing that may be made up for: nobody wakes up to the millisecond


@dataclass(frozen=True)
class Gpu:
    """What its driver tells now."""

    temperature: float | None = None  # degrees Celsius
    power: float | None = None  # watts, on average since the measurement before


@dataclass(frozen=True)
class Gains:
    """Of a controller: change of the duty for a unit more than before, and for a unit below the limit in a second."""

    proportional: float
    integral: float


DEGREES = Gains(0.1, 0.006)
POWER = Gains(0.5, 0.1)  # for the whole limit as the unit


class Controller:
    """Holds what is measured near a target.

    Args:
        highest: duty, where nothing has to be held.
        window: measurements of which `level` makes one figure.
    """

    def __init__(
        self, target: float, gains: Gains, highest: float, window: int, level: Callable[[deque[float]], float]
    ):
        self._target, self._gains, self._highest, self._level = target, gains, highest, level
        self._newest: deque[float] = deque(maxlen=window)
        self._before: float | None = None
        self.duty = highest

    def measured(self, value: float) -> None:
        """Take in the next measurement, `MEASURE_EVERY` seconds after the one before."""
        self._newest.append(value)
        level = self._level(self._newest)
        rise = 0.0 if self._before is None else level - self._before
        change = self._gains.integral * MEASURE_EVERY * (self._target - level) - self._gains.proportional * rise
        self._before, self.duty = level, min(self._highest, max(0.0, self.duty + change))


class DutyCycle:
    """Says when the next batch may begin. Computing takes from a balance, and time adds the duty to it."""

    def __init__(self, wishes: Wishes, clock: Callable[[], float]):
        self._share, self._clock, self._limit = wishes.share, clock, wishes.max_temperature
        self._temperature = self._power = None
        if wishes.max_temperature is not None:
            self._temperature = Controller(wishes.max_temperature - BELOW, DEGREES, wishes.share, HOTTEST_OF, max)
        if wishes.max_power is not None:
            gains = Gains(POWER.proportional / wishes.max_power, POWER.integral / wishes.max_power)
            self._power = Controller(wishes.max_power, gains, wishes.share, MEAN_OF, mean)
        self._too_hot = False
        self._balance, self._at = 0.0, clock()

    @property
    def duty(self) -> float:
        """Between 0 and 1."""
        held = [one.duty for one in (self._temperature, self._power) if one is not None]
        return min([self._share, *held])

    @property
    def forbids(self) -> bool:
        """Whether nothing may be computed now, however long ago the last batch was."""
        return self._too_hot or self.duty <= 0.0

    def measured(self, gpu: Gpu) -> None:
        """Take in what the driver tells now."""
        self._too_hot = self._limit is not None and gpu.temperature is not None and gpu.temperature > self._limit
        if self._temperature is not None and gpu.temperature is not None:
            self._temperature.measured(gpu.temperature)
        if self._power is not None and gpu.power is not None:
            self._power.measured(gpu.power)

    def lost(self) -> None:
        """The driver tells nothing any more, so that no limit can be held: nothing is computed until it does."""
        self._too_hot = True

    def may_begin(self) -> bool:
        """Whether a batch may begin now."""
        self._advance()
        self._balance = min(SURPLUS, self._balance)
        return not self._too_hot and (self.duty >= 1.0 or self._balance >= 0.0)

    def computed(self, seconds: float) -> None:
        """A batch that ends now has taken so long."""
        self._advance()
        self._balance -= seconds

    def _advance(self) -> None:
        now = self._clock()
        self._balance, self._at = self._balance + self.duty * (now - self._at), now
