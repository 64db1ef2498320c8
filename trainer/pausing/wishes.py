"""What a volunteer wishes: at which times to train, and what of this machine to leave alone. Quick to import."""

import datetime
import re
from dataclasses import dataclass, field

from swarm.errors import SahajError
from swarm.language import _

NIGHT = "22:00-07:00"
IDLE_AFTER = 5.0  # minutes without a key or a movement, after which nobody uses this machine
_HOURS = re.compile(r"(\d{1,2}):(\d{2})-(\d{1,2}):(\d{2})")
_MINUTES_OF_A_DAY = 24 * 60


class WishError(SahajError):
    """What somebody wrote is no time to train at, or this machine cannot keep to it."""

    exit_status = 2


@dataclass(frozen=True)
class Hours:
    """A time of each day, in minutes since midnight; it may go past midnight."""

    start: int
    end: int

    def contain(self, now: datetime.datetime) -> bool:
        """Whether the local time `now` is in it."""
        minute = now.hour * 60 + now.minute
        if self.start < self.end:
            return self.start <= minute < self.end
        return minute >= self.start or minute < self.end

    def next_start(self, now: datetime.datetime) -> datetime.datetime:
        """When it begins next."""
        begins = now.replace(hour=self.start // 60, minute=self.start % 60, second=0, microsecond=0)
        return begins if begins > now else begins + datetime.timedelta(days=1)


@dataclass(frozen=True)
class Occasion:
    """An occasion to train: all that it asks for has to be so."""

    idle: bool = False  # nobody uses this machine
    hours: Hours | None = None


@dataclass(frozen=True)
class When:
    """The occasions of `--when`, as they were written; none: at any time."""

    written: str = "always"
    occasions: tuple[Occasion, ...] = ()

    @property
    def asks_for_idle(self) -> bool:
        """Whether it has to be known that nobody uses this machine."""
        return any(one.idle for one in self.occasions)


@dataclass(frozen=True)
class Wishes:
    """All of them. Limits that are None are none."""

    when: When = field(default_factory=When)
    idle_after: float = IDLE_AFTER  # minutes
    on_battery: bool = False  # train from the battery, too
    on_metered: bool = False  # use connections, too, that cost by the byte
    max_traffic: float | None = None  # gigabytes a day that averaging may send and fetch
    share: float = 1.0  # of the time that the device computes
    max_temperature: float | None = None  # degrees Celsius of the GPU
    max_power: float | None = None  # watts of the GPU


def when(written: str) -> When:
    """The occasions that are meant.

    Args:
        written: `always`, or occasions with commas between them, any of which will do. An occasion is `idle`, `night`,
            or hours such as `22:00-07:00`; with a plus between them it takes both, as in `idle+night`.

    Raises:
        WishError: it is none of these.
    """
    text = written.strip().lower()
    if text == "always":
        return When(text)
    return When(text, tuple(_occasion(one, written) for one in text.split(",")))


def _occasion(text: str, written: str) -> Occasion:
    found = Occasion()
    for word in (part.strip() for part in text.split("+")):
        if word == "idle" and not found.idle:
            found = Occasion(idle=True, hours=found.hours)
        elif (hours := _hours(NIGHT if word == "night" else word)) is not None and found.hours is None:
            found = Occasion(idle=found.idle, hours=hours)
        else:
            raise WishError(
                _(
                    "--when {written}: must be always, idle, night or hours such as 22:00-07:00; idle,night means when "
                    "one of them holds, idle+night when both do"
                ).format(written=repr(written))
            )
    return found


def _hours(word: str) -> Hours | None:
    if (found := _HOURS.fullmatch(word)) is None:
        return None
    first, minute, last, end_minute = map(int, found.groups())
    start, end = first * 60 + minute, last * 60 + end_minute
    if minute > 59 or end_minute > 59 or start >= _MINUTES_OF_A_DAY or end > _MINUTES_OF_A_DAY:
        return None
    return None if start == end % _MINUTES_OF_A_DAY else Hours(start, end % _MINUTES_OF_A_DAY)
