"""The clock of the swarm: the machine's time when the program started, carried on by a clock that nobody sets.

Records, passes and rounds are valid until a moment on which all peers agree; hivemind drops what is past it. A peer
whose clock was put forward by two minutes would drop all messages, and others would drop those of a peer whose clock
was put back. The time at the start counts: hivemind refuses peers that are more than three seconds off.
"""

import time

from swarm.language import _

SLACK = 3.0  # seconds that the machine's clock may be off before it is worth a word; hivemind's tolerance
_SINCE_BOOT = getattr(time, "CLOCK_BOOTTIME", None)  # goes on while the machine sleeps; Linux only
_booted = time.time() - time.clock_gettime(_SINCE_BOOT) if _SINCE_BOOT is not None else 0.0


def now() -> float:
    """Unix time in seconds, the same for a peer's processes. Where there is no clock for it, the machine's."""
    return time.time() if _SINCE_BOOT is None else _booted + time.clock_gettime(_SINCE_BOOT)


def set_by() -> float:
    """Seconds by which the machine's clock has been put forward since the start; 0 if that is little."""
    ahead = time.time() - now()
    return ahead if abs(ahead) > SLACK else 0.0


def describe_offset(ahead: float, whose: str) -> str:
    """The message for a person whose clock is wrong: another one is ahead of it by so many seconds."""
    seconds = round(abs(ahead))
    amount = _("{n} s").format(n=seconds) if seconds < 120 else _("{n} minutes").format(n=f"{seconds / 60:.0f}")
    found = (
        _("this machine's clock is {time} behind {whose}; correct the clock (on Linux: {command}) and join again")
        if ahead > 0
        else _(
            "this machine's clock is {time} ahead of {whose}; correct the clock (on Linux: {command}) and join again"
        )
    )
    return found.format(time=amount, whose=_(whose), command="timedatectl set-ntp true")
