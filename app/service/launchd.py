"""Agents of launchd, on a Mac, and their property lists."""

import contextlib
import os
import plistlib
import re
from pathlib import Path
from xml.parsers.expat import ExpatError

from app.service.manager import called
from app.service.service import PREFIX, RESTART_AFTER, Service, State
from app.service.start_script import final_ends_as_success
from swarm.errors import SahajError
from swarm.files import write_file

STATE = "--state"
LAST_BYTES = 4096  # of the log, in which its last line is looked for


class Launchd:
    """The services of this user by launchd; `Systemd` has the same methods."""

    def __init__(self) -> None:
        library = Path.home() / "Library"
        self._folder, self._logs = library / "LaunchAgents", library / "Logs"
        self._domain = f"gui/{os.getuid()}"

    def check(self) -> None:
        """See that launchd answers for this user.

        Raises:
            SahajError: it does not.
        """
        try:
            called("launchctl", "print", self._domain)
        except SahajError as error:
            raise SahajError(
                f"{error}: no agents of launchd for this user here; log in at the Mac itself, not by ssh, "
                "or run it yourself"
            ) from None

    def install(self, service: Service) -> None:
        """Write its plist, and load it now and with each login; one of the same name is replaced."""
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
        """The peers' folders, by the names of the services that have a plist in the user's folder."""
        found = {path: folder_of(path.read_bytes()) for path in self._folder.glob(f"{PREFIX}*.plist")}
        return {path.stem.removeprefix(PREFIX): folder for path, folder in sorted(found.items()) if folder}

    def state(self, name: str) -> State:
        """What launchd prints of it."""
        try:
            return read_state(called("launchctl", "print", f"{self._domain}/{PREFIX}{name}"))
        except SahajError:  # not loaded
            return State(runs=False)

    def where_it_tells(self, name: str) -> str:
        """Where to read what it prints: in its log, which the Mac's Console shows."""
        return f"tail -f {self._log(name)}"

    def last_line(self, name: str) -> str:
        """What it has printed last; empty if that is not known."""
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


def agent(service: Service, log: Path) -> bytes:
    """The content of its plist file; see launchd.plist(5).

    Args:
        log: file for what it prints.
    """
    script = final_ends_as_success(service.script, service.final)
    return plistlib.dumps(
        {
            "Label": service.label,
            "ProgramArguments": ["/bin/sh", "-c", script, "sahaj", *service.words],
            "EnvironmentVariables": dict(service.environment),
            "RunAtLoad": True,
            "KeepAlive": {"SuccessfulExit": False},
            "ThrottleInterval": RESTART_AFTER,
            "ExitTimeOut": service.seconds_to_stop,
            "StandardOutPath": str(log),
            "StandardErrorPath": str(log),
        }
    )


def folder_of(content: bytes) -> Path | None:
    """The peer's folder of an agent; None if it is not one of ours."""
    try:
        words = plistlib.loads(content)["ProgramArguments"]
        return Path(words[words.index(STATE) + 1])
    except (plistlib.InvalidFileException, ExpatError, KeyError, ValueError, IndexError, TypeError):
        return None


def read_state(printed: str) -> State:
    """The state that `launchctl print` tells."""
    runs = re.search(r"^\s*state = running$", printed, re.MULTILINE) is not None
    ended = re.search(r"^\s*last exit code = (\d+)", printed, re.MULTILINE)
    status = int(ended[1]) if ended and not runs else None
    return State(runs=runs, waits=bool(status), status=status)
