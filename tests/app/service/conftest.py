"""Stand-ins: a coordinator as the tests of joining have it, and systemd's commands, which record their calls."""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.app.join.conftest import coordinator, hub, nobody_is_logged_in, server

__all__ = ["coordinator", "hub", "nobody_is_logged_in", "server"]

# answers as systemd 252 does: errors on standard error with status 1, properties a line each
SYSTEMCTL = """#!/bin/sh
[ -e "$STAND_IN/bus" ] || { echo 'Failed to connect to bus: No medium found' >&2; exit 1; }
echo "$@" >>"$STAND_IN/calls"
for unit in "$@"; do :; done
case $2 in
    enable | disable | restart)
        [ -f "$XDG_CONFIG_HOME/systemd/user/$unit" ] ||
            { echo "Failed to $2 unit: Unit file $unit does not exist." >&2; exit 1; } ;;
    show) case $unit in *.service) cat "$STAND_IN/shown" ;; *) echo Version=252 ;; esac ;;
esac
"""
JOURNALCTL = """#!/bin/sh
echo 'step 12 of 100, pausing: until 22:00'
"""


@dataclass
class Machine:
    """A user's home, with a systemd of which a test says what it tells."""

    folder: Path
    home: Path  # of all runs
    units: Path

    def sahaj(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        """Type a command of `sahaj service`, or another one."""
        command = [sys.executable, "-m", "app.cli", *arguments]
        return subprocess.run(command, check=False, capture_output=True, text=True)

    def calls(self) -> list[str]:
        """What systemctl was asked since the last time."""
        path = self.folder / "calls"
        lines = path.read_text().splitlines() if path.exists() else []
        path.unlink(missing_ok=True)
        return lines

    def shows(self, text: str) -> None:
        """What systemctl shows of every unit from now on."""
        (self.folder / "shown").write_text(text)

    def have_bus(self, there: bool) -> None:
        """Whether systemd's user manager answers."""
        if there:
            (self.folder / "bus").touch()
        else:
            (self.folder / "bus").unlink()


@pytest.fixture
def machine(nobody_is_logged_in: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    folder = tmp_path / "stand-in"
    folder.mkdir()
    for name, text in (("systemctl", SYSTEMCTL), ("journalctl", JOURNALCTL)):
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    monkeypatch.setenv("STAND_IN", str(folder))
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("SAHAJ_HOME", str(tmp_path / "sahaj home"))
    monkeypatch.setenv("HF_TOKEN_PATH", str(tmp_path / "token"))
    monkeypatch.delenv("SAHAJ_NAME", raising=False)
    made = Machine(folder, tmp_path / "sahaj home", tmp_path / "config" / "systemd" / "user")
    made.have_bus(True)
    return made
