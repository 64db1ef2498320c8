"""Where a peer keeps its identity and its runs: a folder per coordinator in the user's cache.

Beside them is the program, where `join.sh` or a notebook has installed it.
"""

import fcntl
import os
import re
from pathlib import Path
from urllib.parse import urlsplit

from app.join.installation import installation

HOME = "SAHAJ_HOME"  # environment variable: another folder for all of it
IDENTITY = "identity.key"
LINK = "link"  # file in a folder that tells what run it is for
MOST_PEERS = 64  # of one machine in one run


def default_folder(url: str) -> Path:
    """The first folder for this coordinator that no other process uses: each process is a peer of its own."""
    base = cache_folder() / name_of(url)
    for number in range(1, MOST_PEERS):
        folder = base if number == 1 else base.with_name(f"{base.name}-{number}")
        if not _in_use(folder / IDENTITY):
            return folder
    return base


def cache_folder() -> Path:
    """What `SAHAJ_HOME` names, or where join.sh has installed this program, or `sahaj` in the user's cache."""
    if home := os.environ.get(HOME):
        return Path(home).absolute()
    if installed := installation():
        return installed.parent
    given = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(given) if Path(given).is_absolute() else Path.home() / ".cache") / "sahaj"


def name_of(url: str) -> str:
    """The name of the first folder of a run."""
    parts = urlsplit(url)
    return re.sub(r"[^A-Za-z0-9.]+", "-", f"{parts.netloc}{parts.path}").strip("-.")[:100] or "run"


def _in_use(path: Path) -> bool:
    """Whether a process has a lock on the file, as peers have on their identity (`swarm.identity`)."""
    try:
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # such as that there is no file
        pass
    return False
