"""Where a peer keeps its identity and its runs: a folder per coordinator in the user's cache."""

import fcntl
import os
import re
from pathlib import Path
from urllib.parse import urlsplit

IDENTITY = "identity.key"
PEERS = "peers.json"  # in the folder of a run: addresses to join by
MOST_PEERS = 64  # of one machine in one run


def default_folder(url: str) -> Path:
    """The first folder for this coordinator that no other process uses: each process is a peer of its own."""
    folders = _folders(url)
    return next((folder for folder in folders if not in_use(folder)), folders[0])


def used_folders(url: str) -> list[Path]:
    """Those folders for this coordinator in which a process is a peer now."""
    return [folder for folder in _folders(url) if in_use(folder)]


def in_use(folder: Path) -> bool:
    """Whether a process is the peer of this folder: it holds the lock that `swarm.identity` takes."""
    try:
        with (folder / IDENTITY).open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # such as that there is no file
        pass
    return False


def cache_folder() -> Path:
    """`sahaj` in the user's cache."""
    given = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(given) if Path(given).is_absolute() else Path.home() / ".cache") / "sahaj"


def _name(url: str) -> str:
    parts = urlsplit(url)
    return re.sub(r"[^A-Za-z0-9.]+", "-", f"{parts.netloc}{parts.path}").strip("-.")[:100] or "run"


def _folders(url: str) -> list[Path]:
    base = cache_folder() / _name(url)
    return [base, *(base.with_name(f"{base.name}-{number}") for number in range(2, MOST_PEERS))]
