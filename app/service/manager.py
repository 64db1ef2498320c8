"""How commands of systemd and launchd are called."""

import os
import subprocess

from swarm.errors import SahajError, in_a_line

PATIENCE = 600.0  # seconds; a trainer may take as long as --grace says to stop


def called(*command: str) -> str:
    """What a command prints.

    Raises:
        SahajError: it is not there, or it fails.
    """
    try:
        # answers in English, which are read here
        environment = {**os.environ, "LC_ALL": "C"}
        done = subprocess.run(
            command, check=False, capture_output=True, text=True, errors="replace", timeout=PATIENCE, env=environment
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SahajError(f"{command[0]}: {in_a_line(error)}") from None
    if done.returncode != 0:
        raise SahajError(f"`{' '.join(command)}`: {in_a_line(done.stderr or f'exit status {done.returncode}')}")
    return done.stdout
