"""The program where `join.sh` has installed it: a folder that nobody upgrades or removes while a peer runs from it."""

import fcntl
import sys
from pathlib import Path
from typing import IO

from swarm.errors import StorageError

LOCK = "lock"  # file beside the virtual environment; join.sh makes it, and has it to itself while it installs
_kept: list[IO[bytes]] = []


def keep_installation(environment: Path | None = None) -> None:
    """Keep the installation that this program runs from as it is, for as long as the process lives.

    Args:
        environment: its virtual environment, by default that of this process; there is nothing to keep elsewhere.

    Raises:
        StorageError: it is being upgraded or removed.
    """
    folder = (environment or Path(sys.prefix)).parent
    try:
        lock = (folder / LOCK).open("rb")
    except OSError:  # installed in another way
        return
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        lock.close()
        raise StorageError(f"{folder}: the program there is being upgraded or removed; start again later") from None
    _kept.append(lock)
