"""Agents of launchd, on a Mac."""

import contextlib
import os
import re
from pathlib import Path

from app.service.launchd_agent import agent, folder_of
from app.service.manager import called
from app.service.service import PREFIX, Service, State
from swarm.errors import SahajError
from swarm.files import write_file

LAST_BYTES = 4096  # of the log, in which its last line is looked for


class Launchd:
    """See `app.service.manager.Manager`."""

    def __init__(self) -> None:
        library = Path.home() / "Library"
        self._folder, self._logs = library / "LaunchAgents", library / "Logs"
        self._domain = f"gui/{os.getuid()}"

    def check(self) -> None:
        """See that launchd answers for this user."""
        try:
            called("launchctl", "print", self._domain)
        except SahajError as error:
            raise SahajError(
                f"{error}: no agents of launchd for this user here; log in at the Mac itself, not by ssh, "
                "or run it yourself"
            ) from None

    def install(self, service: Service) -> None:
        """Write its plist, and load it."""
        path = self._path(service.name)
        if path.exists():
            self._unload(service.name)
        self._logs.mkdir(parents=True, exist_ok=True)
        write_file(path, agent(service, self._log(service.name)))
        called("launchctl", "bootstrap", self._domain, str(path))

    def remove(self, name: str) -> None:
        """Unload it, and delete its plist."""
        self._unload(name)
        self._path(name).unlink(missing_ok=True)

    def installed(self) -> dict[str, Path]:
        """Those whose plists are in the user's folder."""
        found = {path: folder_of(path.read_bytes()) for path in self._folder.glob(f"{PREFIX}*.plist")}
        return {path.stem.removeprefix(PREFIX): folder for path, folder in sorted(found.items()) if folder}

    def state(self, name: str) -> State:
        """What launchd prints of it."""
        try:
            return read_state(called("launchctl", "print", f"{self._domain}/{PREFIX}{name}"))
        except SahajError:  # not loaded
            return State(runs=False)

    def where_it_tells(self, name: str) -> str:
        """Its log, which the Mac's Console shows."""
        return f"tail -f {self._log(name)}"

    def last_line(self, name: str) -> str:
        """Of its log."""
        with contextlib.suppress(OSError), self._log(name).open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - LAST_BYTES))
            lines = file.read().decode("utf-8", "replace").split("\n")
            return next((line for line in reversed(lines) if line.strip()), "")
        return ""

    def _unload(self, name: str) -> None:
        with contextlib.suppress(SahajError):  # it was not loaded
            called("launchctl", "bootout", f"{self._domain}/{PREFIX}{name}")

    def _path(self, name: str) -> Path:
        return self._folder / f"{PREFIX}{name}.plist"

    def _log(self, name: str) -> Path:
        return self._logs / f"{PREFIX}{name}.log"


def read_state(printed: str) -> State:
    """The state that `launchctl print` tells."""
    runs = re.search(r"^\s*state = running$", printed, re.MULTILINE) is not None
    ended = re.search(r"^\s*last exit code = (\d+)", printed, re.MULTILINE)
    status = int(ended[1]) if ended and not runs else None
    return State(runs=runs, waits=bool(status), status=status)
