"""The program where `join.sh` has installed it: a folder that nobody upgrades or removes while a peer runs from it."""

import fcntl
import sys
from pathlib import Path
from typing import IO

from swarm.errors import StorageError
from swarm.language import _

COMMANDS = "commands"  # folder beside installations, in which join.sh puts links to commands of the last one
LOCK = "lock"  # file beside the virtual environment; join.sh makes it, and has it to itself while it installs
ENVIRONMENT = Path(sys.prefix)  # virtual environment of this process
_kept: list[IO[bytes]] = []


def installation(environment: Path = ENVIRONMENT) -> Path | None:
    """The folder of the installation that has this virtual environment, None if join.sh has not made it."""
    folder = environment.parent
    return folder if (folder / LOCK).is_file() else None


def command(environment: Path = ENVIRONMENT) -> str:
    """What a person types to call this program: its path, where join.sh has installed it and no search path has it."""
    folder = installation(environment)
    if folder is None:
        return "sahaj"
    program, link = environment / "bin" / "sahaj", folder.parent / COMMANDS / "sahaj"
    return str(link if link.is_symlink() and link.readlink() == program else program)


def keep_installation(folder: Path | None = None) -> None:
    """Keep an installation as it is for as long as this process lives.

    Args:
        folder: by default the one that this program runs from; there is nothing to keep if it was installed otherwise.

    Raises:
        StorageError: it is being upgraded or removed.
    """
    folder = folder or installation()
    if folder is None:
        return
    lock = (folder / LOCK).open("rb")
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        lock.close()
        raise StorageError(
            _("{folder}: the program there is being upgraded or removed; start again later").format(folder=folder)
        ) from None
    _kept.append(lock)
