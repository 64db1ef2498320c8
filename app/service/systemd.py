"""Services of systemd's user manager, and their units."""

import os
from pathlib import Path

from app.service.manager import called
from app.service.service import PREFIX, RESTART_AFTER, Service, State
from app.startup import INTERRUPTED
from swarm.errors import SahajError
from swarm.files import write_file

SHOWN = ("ActiveState", "SubState", "ExecMainCode", "ExecMainStatus", "StateChangeTimestamp")
FOLDER = "Folder="  # in a section that systemd ignores
EXITED = "1"  # of ExecMainCode; other values are signals, or 0 while it runs


class Systemd:
    """The services of this user by systemd; `Launchd` has the same methods."""

    def __init__(self) -> None:
        given = os.environ.get("XDG_CONFIG_HOME", "")
        config = Path(given) if Path(given).is_absolute() else Path.home() / ".config"
        self._folder = config / "systemd" / "user"

    def check(self) -> None:
        """See that the user manager answers.

        Raises:
            SahajError: it does not.
        """
        try:
            _systemctl("show", "--property=Version")
        except SahajError as error:
            raise SahajError(
                f"{error}: no services of systemd for this user here; log in as this user itself, not by sudo or su, "
                "or run it yourself"
            ) from None

    def install(self, service: Service) -> None:
        """Write its unit, and start it now and with each login; one of the same name is replaced."""
        write_file(self._path(service.name), unit(service))
        _systemctl("daemon-reload")
        _systemctl("enable", _unit_name(service.name))
        _systemctl("restart", _unit_name(service.name))  # with the new unit, if it ran with another one

    def remove(self, name: str) -> None:
        """Stop it, and delete its unit."""
        _systemctl("disable", "--now", _unit_name(name))
        self._path(name).unlink(missing_ok=True)
        _systemctl("daemon-reload")

    def installed(self) -> dict[str, Path]:
        """The peers' folders, by the names of the services that have a unit in the user's folder."""
        found = {
            path: folder_of(path.read_text("utf-8", "replace")) for path in self._folder.glob(f"{PREFIX}*.service")
        }
        return {path.stem.removeprefix(PREFIX): folder for path, folder in sorted(found.items()) if folder}

    def state(self, name: str) -> State:
        """What systemd shows of its unit."""
        return read_state(_systemctl("show", f"--property={','.join(SHOWN)}", _unit_name(name)))

    def where_it_tells(self, name: str) -> str:
        """Where to read what it prints: in the journal."""
        return f"journalctl --user-unit {_unit_name(name)} --follow"

    def last_line(self, name: str) -> str:
        """What it has printed last; empty where this user may not read the journal."""
        try:
            lines = called("journalctl", "--quiet", "--user-unit", _unit_name(name), "--output=cat", "--lines=1")
        except SahajError:
            return ""
        return lines.strip()

    def _path(self, name: str) -> Path:
        return self._folder / _unit_name(name)


def unit(service: Service) -> str:
    """The text of its unit file; see systemd.service(5)."""
    command = [_argument(word) for word in ("/bin/sh", "-c", service.script, "sahaj", *service.words)]
    lines = [
        "[Unit]",
        f"Description=A volunteer of the Sahaj run {service.link.replace('%', '%%')}",
        "StartLimitIntervalSec=0",
        "",
        "[Service]",
        f"ExecStart={' '.join(command)}",
        *(f"Environment={_quoted(f'{name}={value}')}" for name, value in sorted(service.environment.items())),
        "Restart=on-failure",
        f"RestartSec={RESTART_AFTER}",
        f"RestartPreventExitStatus={' '.join(map(str, service.final))}",
        f"SuccessExitStatus={INTERRUPTED}",
        "# SIGTERM goes to the main process alone: it ends its helpers when they are no longer needed",
        "KillMode=mixed",
        f"TimeoutStopSec={service.seconds_to_stop}",
        "",
        "[Install]",
        "WantedBy=default.target",
        "",
        "[X-Sahaj]",
        f"{FOLDER}{service.folder}",
    ]
    return "".join(f"{line}\n" for line in lines)


def folder_of(text: str) -> Path | None:
    """The peer's folder of a unit; None if it is not one of ours."""
    found = [line.removeprefix(FOLDER) for line in text.splitlines() if line.startswith(FOLDER)]
    return Path(found[-1]) if found else None


def _argument(word: str) -> str:
    return _quoted(word).replace("$", "$$")


def _quoted(text: str) -> str:
    """Quoted as systemd reads it: backslashes escape, and a percent sign begins a specifier."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return f'"{escaped}"'


def read_state(shown: str) -> State:
    """The state that `systemctl show` tells, a property a line."""
    facts = dict(line.split("=", 1) for line in shown.splitlines() if "=" in line)
    active = facts.get("ActiveState")
    exited = facts.get("ExecMainCode") == EXITED and facts.get("ExecMainStatus", "").isdigit()
    return State(
        runs=active in ("active", "deactivating", "reloading"),
        waits=active == "activating",
        since=facts.get("StateChangeTimestamp", ""),
        status=int(facts["ExecMainStatus"]) if exited else None,
    )


def lingers(user: str, folder: Path = Path("/var/lib/systemd/linger")) -> bool:
    """Whether the services of the user run without a login, too."""
    return (folder / user).exists()


def _systemctl(*arguments: str) -> str:
    return called("systemctl", "--user", *arguments)


def _unit_name(name: str) -> str:
    return f"{PREFIX}{name}.service"
