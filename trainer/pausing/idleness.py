"""For how long nobody has used this machine.

- Linux: the graphical sessions that logind lists, and the newest key that was typed into any terminal. GNOME's window
  manager tells of its session to the millisecond; of others logind knows what their desktops say, which is that nobody
  has been there for some minutes, or that the screen is locked.
- macOS: the input system's own clock, which `ioreg` shows.
"""

import contextlib
import math
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from jeepney import DBusAddress

from trainer.pausing.bus import Bus, NoAnswer

LOGIND = DBusAddress("/org/freedesktop/login1", "org.freedesktop.login1", "org.freedesktop.login1.Manager")
SESSION = "org.freedesktop.login1.Session"
MUTTER = DBusAddress(
    "/org/gnome/Mutter/IdleMonitor/Core", "org.gnome.Mutter.IdleMonitor", "org.gnome.Mutter.IdleMonitor"
)
GRAPHICAL = ("x11", "wayland", "mir")
TERMINALS = ("pts/[0-9]*", "tty[0-9]*")
DEVICES = Path("/dev")
IOREG = ("ioreg", "-c", "IOHIDSystem", "-d", "4")
IOREG_IDLE = re.compile(r'"HIDIdleTime" = (\d+)')  # nanoseconds
PATIENCE = 2.0  # seconds for ioreg


class LinuxIdleness:
    """Asks the desktop and looks at the terminals.

    Args:
        devices: the folder of terminals.
        clock: unix time, seconds, as logind and files have it.
    """

    def __init__(self, devices: Path = DEVICES, clock: Callable[[], float] = time.time):
        self._devices, self._clock = devices, clock
        self._system, self._session = Bus("SYSTEM"), Bus("SESSION")

    def __call__(self) -> float | None:
        """Seconds; None: it cannot be known now."""
        desktop = self._desktop()
        return None if desktop is None else max(0.0, min(desktop, self._terminals()))

    def _terminals(self) -> float:
        """Since a program has read a key from any of them."""
        read = -math.inf
        for pattern in TERMINALS:
            for terminal in self._devices.glob(pattern):
                with contextlib.suppress(OSError):
                    read = max(read, terminal.stat().st_atime)
        return self._clock() - read

    def _desktop(self) -> float | None:
        """Infinite where there is none; None where nothing tells, as in a container."""
        try:
            sessions = self._system.call(LOGIND, "ListSessions")
            found = [one for *_, path in sessions if (one := self._graphical(path)) is not None]
        except NoAnswer:
            return None
        return min((self._idle(one) for one in found), default=math.inf)

    def _graphical(self, path: str) -> dict[str, Any] | None:
        """A person's graphical session, by what logind knows of it; None for any other."""
        one = self._system.properties(DBusAddress(path, LOGIND.bus_name, SESSION))
        is_one = one["Type"] in GRAPHICAL and one["Class"] == "user" and one["State"] != "closing"
        return one if is_one else None

    def _idle(self, session: dict[str, Any]) -> float:
        if session["User"][0] == os.getuid():
            with contextlib.suppress(NoAnswer):
                return float(self._session.call(MUTTER, "GetIdletime")) / 1000
        if session["LockedHint"]:
            return math.inf
        return self._clock() - session["IdleSinceHint"] / 1e6 if session["IdleHint"] else 0.0


def mac_idleness() -> float | None:
    """Seconds; None: it cannot be known now."""
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        told = subprocess.run(IOREG, capture_output=True, text=True, check=True, timeout=PATIENCE).stdout
        if found := IOREG_IDLE.search(told):
            return int(found[1]) / 1e9
    return None


def idleness_of_this_machine() -> Callable[[], float | None]:
    """What tells it here."""
    return mac_idleness if sys.platform == "darwin" else LinuxIdleness()
