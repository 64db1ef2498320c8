"""What those people did together: global steps, losses, a storm of failures, a rollback, hours without coordinator."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tests.recorded_month.people import DAY, Sitting

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

KEPT_OF_SPEED = 0.92  # what averaging leaves of it
STORM = (9.3, 9.8)  # days from the beginning: rounds of averaging fail
ABSENT = (12.4, 12.6)  # the coordinator was off; peers went on, and their records told it later
EXPLODED = 17.5  # the training loss explodes, and the swarm goes back


@dataclass(frozen=True)
class Brought:
    """What one session brought to the global steps from position `first` on; failures are of averaging."""

    sitting: Sitting
    first: int
    samples: Ints
    failures: Ints


@dataclass(frozen=True)
class Training:
    """K global steps: their numbers, when each was counted (unix seconds), mean losses, and who brought it."""

    numbers: Ints
    times: Floats
    losses: Floats
    brought: list[Brought]
    went_back_at: int | None  # number of the first step after the rollback

    def summed(self, name: str) -> Ints:
        """`samples` or `failures` of each step over all sessions."""
        sums = np.zeros(len(self.numbers), np.int64)
        for one in self.brought:
            values = getattr(one, name)
            sums[one.first : one.first + len(values)] += values
        return sums


def train(sittings: list[Sitting], began: float, now: float, target: int, chance: np.random.Generator) -> Training:
    """All global steps of the run until `now`, each of about `target` samples."""
    ends = _step_ends(sittings, began, now, target)
    starts = np.concatenate([[began], ends[:-1]])
    rates = np.where(_within(ends, began, STORM), 0.3, 0.012)
    brought = []
    for one in sittings:
        first, last = np.searchsorted(ends, [one.start, min(one.end, now)], side="right")
        mine = slice(int(first), int(min(last + 1, len(ends))))
        overlap = np.minimum(one.end, ends[mine]) - np.maximum(one.start, starts[mine])
        samples = np.round(np.maximum(overlap, 0.0) * one.samples_per_second * KEPT_OF_SPEED).astype(np.int64)
        failures = np.diff(np.floor(np.cumsum(rates[mine]) + chance.random()), prepend=0.0).astype(np.int64)
        failures = np.clip(failures, 0, 1)
        brought.append(Brought(one, mine.start, samples, failures))
    losses, went_back = _losses(len(ends), int(np.searchsorted(ends, began + EXPLODED * DAY)), chance)
    numbers = np.arange(len(ends), dtype=np.int64)
    if went_back is not None:
        numbers[went_back:] += 4
    times = np.where(_within(ends, began, ABSENT), began + ABSENT[1] * DAY, ends)
    back_at = None if went_back is None else int(numbers[went_back])
    return Training(numbers, times, losses, brought, back_at)


def learned(position: npt.ArrayLike) -> Floats:
    """How much of what there is to learn is learned after so many steps, from 0 to 1."""
    return 1.0 - (1.0 + np.asarray(position, np.float64) / 900.0) ** -0.55


def _step_ends(sittings: list[Sitting], began: float, now: float, target: int) -> Floats:
    minutes = int((now - began) // 60) + 1
    change = np.zeros(minutes + 1)
    for one in sittings:
        change[int((one.start - began) // 60)] += one.samples_per_second
        change[min(minutes, int((one.end - began) // 60))] -= one.samples_per_second
    gathered = np.concatenate([[0.0], np.cumsum(np.cumsum(change[:minutes])) * 60 * KEPT_OF_SPEED])
    gathered += np.arange(minutes + 1) * 1e-6  # it has to rise
    steps = np.arange(1, int(gathered[-1] // target) + 1) * float(target)
    ends = np.interp(steps, gathered, began + np.arange(minutes + 1) * 60.0)
    return ends[ends < now]


def _losses(count: int, explosion: int, chance: np.random.Generator) -> tuple[Floats, int | None]:
    """Mean losses of the steps, and the position of the first one after the rollback."""
    position = np.arange(count, dtype=np.float64)
    if explosion + 20 >= count:
        return 10.4 - 8.9 * learned(position) + chance.normal(0, 0.03, count), None
    back = explosion + 14
    position[back:] -= 120
    losses = 10.4 - 8.9 * learned(position) + chance.normal(0, 0.03, count)
    losses[explosion:back] += np.linspace(0.6, 5.0, back - explosion)
    return losses, back


def _within(times: Floats, began: float, days: tuple[float, float]) -> npt.NDArray[np.bool_]:
    return (times >= began + days[0] * DAY) & (times < began + days[1] * DAY)


def minute_is_told(time: float, began: float) -> bool:
    """Whether the coordinator was there."""
    return not ABSENT[0] * DAY <= time - began < ABSENT[1] * DAY
