"""Takes little of the processor and the disk from other programs: a low priority, and only some of the cores."""

import contextlib
import sys

import psutil

NICE = 10  # of 19: other programs come first, and rounds of averaging still get their turn where the machine is busy
LEAST_OF_DISK = 7  # of the classes that are served at all


def have_low_priority() -> None:
    """For this thread, and all threads and processes that it begins: call it first of all."""
    own = psutil.Process()
    with contextlib.suppress(psutil.Error, OSError):
        if own.nice() < NICE:
            own.nice(NICE)
    if sys.platform == "linux":
        with contextlib.suppress(psutil.Error, OSError):
            own.ionice(psutil.IOPRIO_CLASS_BE, LEAST_OF_DISK)


def use_cores(count: int) -> None:
    """Run on the last of the cores that this process may use, and on no others; as above. macOS has no such thing."""
    own = psutil.Process()
    if hasattr(own, "cpu_affinity"):
        with contextlib.suppress(psutil.Error, OSError):
            own.cpu_affinity(sorted(own.cpu_affinity())[-count:])
