"""The time of the swarm: this machine's, as it was when the program started, carried on by a clock that nobody sets.

Records, passes and rounds of averaging are good until a moment on which all peers agree; hivemind drops what is
past it. A peer whose clock was put forward by two minutes would hear nobody any more, and nobody would hear one
whose clock was put back. What the clock shows at the start counts: hivemind lets in nobody who is more than
three seconds off.
"""

import sys
import time

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


def keep_time() -> None:
    """Have hivemind go by this clock, in this process and in those that will be forked from it."""
    from hivemind.utils import timed_storage  # takes seconds; whoever only asks for the time need not wait

    upstream = timed_storage.get_dht_time
    for name, module in list(sys.modules.items()):  # it is imported by name wherever it is used
        if name.partition(".")[0] == "hivemind" and getattr(module, "get_dht_time", None) is upstream:
            module.get_dht_time = now  # type: ignore[attr-defined]


def describe_offset(ahead: float, whose: str) -> str:
    """What to say to whoever has a wrong clock, when another one is ahead of it by so many seconds."""
    seconds = round(abs(ahead))
    amount = f"{seconds} s" if seconds < 120 else f"{seconds / 60:.0f} minutes"
    return (
        f"this machine's clock is {amount} {'behind' if ahead > 0 else 'ahead of'} {whose}; "
        "set it right (on Linux: timedatectl set-ntp true) and join again"
    )
