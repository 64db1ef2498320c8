"""What starts services on this machine, and how its commands are called."""

import os
import subprocess
from pathlib import Path
from typing import Protocol

from app.service.service import Service, State
from swarm.errors import SahajError, in_a_line

PATIENCE = 600.0  # seconds; a trainer may take as long as --grace says to stop


class Manager(Protocol):
    """systemd or launchd, for the services of this user."""

    def check(self) -> None:
        """See that it answers.

        Raises:
            SahajError: it does not.
        """

    def install(self, service: Service) -> None:
        """Start it now, and with each login; one of the same name is replaced."""

    def remove(self, name: str) -> None:
        """Stop it, and do not start it again."""

    def installed(self) -> dict[str, Path]:
        """The folders of the peers, by the names of their services."""

    def state(self, name: str) -> State:
        """What it does now."""

    def where_it_tells(self, name: str) -> str:
        """Where to read what it prints."""

    def last_line(self, name: str) -> str:
        """What it has printed last; empty if that is not known."""


def called(*command: str, patience: float = PATIENCE) -> str:
    """What a command prints.

    Raises:
        SahajError: it is not there, or it fails.
    """
    try:
        # answers in English, which are read here
        environment = {**os.environ, "LC_ALL": "C"}
        done = subprocess.run(
            command, check=False, capture_output=True, text=True, errors="replace", timeout=patience, env=environment
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SahajError(f"{command[0]}: {in_a_line(error)}") from None
    if done.returncode != 0:
        raise SahajError(f"`{' '.join(command)}`: {in_a_line(done.stderr or f'exit status {done.returncode}')}")
    return done.stdout
