"""The unit of a service for systemd's user manager, as text."""

from pathlib import Path

from app.service.service import Service
from app.startup import INTERRUPTED

RESTART_AFTER = 60  # seconds
FOLDER = "Folder="  # in a section that systemd ignores


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
