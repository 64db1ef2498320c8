"""Where a peer keeps its identity and its runs: a folder per coordinator in the user's cache.

Beside them is the program, where `join.sh` or a notebook has installed it.
"""

import fcntl
import os
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

from app.installation import installation

HOME = "SAHAJ_HOME"  # environment variable: another folder for all of it
IDENTITY = "identity.key"
LINK = "link"  # file in a folder that tells what run it is for
PAUSE = "pause"  # file that is there while the volunteer of a service wants a pause
PEERS = "peers.json"  # in the folder of a run: addresses to join by
MOST_PEERS = 64  # of one machine in one run


def default_folder(url: str) -> Path:
    """The first of `free_folders`."""
    return next(free_folders(url))


def free_folders(url: str, kind: str = "") -> Iterator[Path]:
    """The folders for this coordinator that no other process uses: each process is a peer of its own.

    Another process may take one before this one does. Where none is free, it is the first one.

    Args:
        kind: of peer, which ends the name: one that looks for its files finds no other kind's folder.
    """
    folders = _folders(url, kind)
    yield from (folder for folder in folders if not in_use(folder))
    yield folders[0]


def peer_folders(url: str) -> list[Path]:
    """Those folders for this coordinator that hold an identity; those in use come first."""
    known = [folder for folder in _folders(url) if is_file(folder / IDENTITY)]
    return sorted(known, key=lambda folder: not in_use(folder))


def is_file(path: Path) -> bool:
    """Whether a file is there; False in a folder of another user, where `Path.is_file` raises."""
    return os.path.isfile(path)  # noqa: PTH113


def in_use(folder: Path) -> bool:
    """Whether a process is the peer of this folder: it holds the lock that `swarm.identity` takes."""
    try:
        with (folder / IDENTITY).open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)  # shared: another process may ask the same
    except BlockingIOError:
        return True
    except OSError:  # such as that there is no file
        pass
    return False


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


def _folders(url: str, kind: str = "") -> list[Path]:
    base = cache_folder() / f"{name_of(url)}{kind}"
    return [base, *(base.with_name(f"{base.name}-{number}") for number in range(2, MOST_PEERS + 1))]
