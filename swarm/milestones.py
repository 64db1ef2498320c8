"""Milestones of a person in a run: round numbers of samples and hours, and days in a row on which something came."""

import datetime
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

FEWEST_SAMPLES, FEWEST_HOURS = 100, 10  # smaller round numbers are passed within minutes
DAYS_IN_A_ROW = (3, 7, 14, 30, 50, 100, 200, 365, 500, 1000)
LARGEST = 10**15
ONE_DAY = datetime.timedelta(days=1)


class Kind(str, Enum):
    """What a milestone is a number of."""

    SAMPLES = "samples"
    HOURS = "hours"  # added up over devices
    DAYS = "days"  # in a row, UTC


@dataclass(frozen=True)
class Milestone:
    """A number that was reached."""

    kind: Kind
    number: int


@dataclass(frozen=True)
class Standing:
    """What a person has given to a run over all devices: samples, hours, and the newest days in a row."""

    samples: int = 0
    hours: float = 0.0
    days: int = 0  # in a row, up to `last_day`
    last_day: datetime.date | None = None  # UTC: the newest one on which something was given

    def after(self, samples: int, hours: float, day: datetime.date, *, gave: bool) -> "Standing":
        """With more samples and hours of a day; it counts as one in a row if something was given on it."""
        days, last_day = self.days, self.last_day
        if gave and (last_day is None or day > last_day):
            days, last_day = days + 1 if last_day == day - ONE_DAY else 1, day
        return Standing(self.samples + samples, self.hours + hours, days, last_day)

    def joined(self, other: "Standing") -> "Standing":
        """What two accounts of one person, each of which may be late, say together."""
        _, days, last_day = max((one.last_day or datetime.date.min, one.days, one.last_day) for one in (self, other))
        return Standing(max(self.samples, other.samples), max(self.hours, other.hours), days, last_day)

    def streak(self, today: datetime.date) -> int:
        """Days in a row that can still go on: a streak lives until the end of the day after its last one."""
        return self.days if self.last_day is not None and today - self.last_day <= ONE_DAY else 0

    def newest(self) -> dict[Kind, int]:
        """The newest milestone of each kind, 0 before the first."""
        return {
            Kind.SAMPLES: round_below(self.samples, FEWEST_SAMPLES),
            Kind.HOURS: round_below(self.hours, FEWEST_HOURS),
            Kind.DAYS: max((number for number in DAYS_IN_A_ROW if number <= self.days), default=0),
        }


def reached(before: Standing, after: Standing) -> list[Milestone]:
    """What was reached between two standings: of each kind the last one."""
    then, now = before.newest(), after.newest()
    return [Milestone(kind, number) for kind, number in now.items() if number > then[kind]]


def round_below(value: float, fewest: int) -> int:
    """The largest of 1, 2, 5, 10, 20, 50, ... that a value has reached; 0 below `fewest`."""
    if not fewest <= value <= LARGEST:  # nor is what others say always a number
        return 0
    ten = 10 ** (len(str(int(value))) - 1)
    return next(digit * ten for digit in (5, 2, 1) if value >= digit * ten)


def longest_streak(days: Iterable[datetime.date]) -> int:
    """The most days in a row, of different days in order."""
    longest, standing = 0, Standing()
    for day in days:
        standing = standing.after(0, 0.0, day, gave=True)
        longest = max(longest, standing.days)
    return longest
