"""Whether a trainer pauses now, and why: a pure function of the time, what the machine is doing, and the wishes."""

import datetime
from dataclasses import dataclass
from enum import Enum

from swarm.language import _
from trainer.pausing.wishes import When, Wishes

GIGABYTE = 1e9


class Cause(str, Enum):
    """Why a trainer pauses; the value is what others are told where it is of no concern to them."""

    ORDER = "ordered"
    PAGE = "ordered on the page"
    PERSON = "in use"
    BATTERY = "battery"
    METERED = "metered line"
    TRAFFIC = "traffic"
    HOURS = "hours"
    LIMIT = "limit"

    @property
    def told(self) -> str:
        """What the other peers and the dashboard are told: not whether somebody sits at the computer."""
        return "paused" if self in (Cause.ORDER, Cause.PAGE, Cause.PERSON, Cause.LIMIT) else self.value

    @property
    def stays(self) -> float:
        """Seconds for which the peer stays in the swarm while it pauses, and takes over what the others learn.

        Then it leaves, and frees memory and line, until it may go on.
        """
        return {Cause.METERED: 0.0, Cause.TRAFFIC: 0.0, Cause.HOURS: 0.0, Cause.BATTERY: 60.0}.get(self, 600.0)


@dataclass(frozen=True)
class Facts:
    """What this machine is doing."""

    idle: float | None = None  # seconds since somebody used it; None: it does not tell
    on_battery: bool = False
    is_metered: bool = False  # the connection costs by the byte
    traffic: float = 0.0  # bytes today that averaging has sent and fetched
    is_ordered: bool = False  # to pause, by a file
    is_paused_on_page: bool = False  # by its person, on the page "My machines"


@dataclass(frozen=True)
class Pause:
    """A reason not to train now. `until`: when it ends, if that is known."""

    cause: Cause
    until: datetime.datetime | None = None

    @property
    def reason(self) -> str:
        """For the volunteer, after "pausing: "."""
        until = f"{self.until:%H:%M}" if self.until is not None else ""
        return {
            Cause.ORDER: _("the file of --pause-file exists (remove it to go on)"),
            Cause.PAGE: _("you have paused this machine on the page My machines (resume it there)"),
            Cause.PERSON: _("somebody is using this machine"),
            Cause.BATTERY: _("this machine is on battery power (use --on-battery to train anyway)"),
            Cause.METERED: _("this connection is metered (use --on-metered to train anyway)"),
            Cause.TRAFFIC: _("today's traffic limit (--max-traffic) is used up; training goes on at {time}"),
            Cause.HOURS: _("outside the hours of --when; training begins at {time}"),
            Cause.LIMIT: _(
                "the GPU is above --max-temperature or --max-power even when idle, or its driver does not answer"
            ),
        }[self.cause].format(time=until)


def reason_to_pause(now: datetime.datetime, facts: Facts, wishes: Wishes) -> Pause | None:
    """Why a trainer has to pause at the local time `now`; None: it may train. What lasts longest is named first."""
    if facts.is_ordered:
        return Pause(Cause.ORDER)
    if facts.is_paused_on_page:
        return Pause(Cause.PAGE)
    if wishes.max_traffic is not None and facts.traffic >= wishes.max_traffic * GIGABYTE:
        midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
        return Pause(Cause.TRAFFIC, midnight + datetime.timedelta(days=1))
    if facts.is_metered and not wishes.on_metered:
        return Pause(Cause.METERED)
    if facts.on_battery and not wishes.on_battery:
        return Pause(Cause.BATTERY)
    return _no_occasion(now, facts.idle, wishes.when, 60.0 * wishes.idle_after)


def _no_occasion(now: datetime.datetime, idle: float | None, when: When, idle_after: float) -> Pause | None:
    """Why none of the occasions is there. A machine that does not tell whether it is used counts as used."""
    timely = [one for one in when.occasions if one.hours is None or one.hours.contain(now)]
    if not when.occasions or any(not one.idle or (idle is not None and idle >= idle_after) for one in timely):
        return None
    if timely:
        return Pause(Cause.PERSON)
    return Pause(Cause.HOURS, min(one.hours.next_start(now) for one in when.occasions if one.hours is not None))
