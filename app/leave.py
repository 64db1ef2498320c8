"""`sahaj leave`: removes what joining has put on this machine, and nothing else."""

import contextlib
import fcntl
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from app.installation import COMMANDS, LOCK
from app.join.peer_folder import HOME, IDENTITY, LINK, cache_folder, is_file
from swarm.errors import SahajError, StorageError
from swarm.language import _, several
from swarm.logging import logs

PREFIX = "program-"  # of installations; those of notebooks are virtual environments themselves
VENV = "pyvenv.cfg"
MARKS = (IDENTITY, LINK, LOCK, VENV)  # files by which a folder is known
STATES = "*/experts*/*.safetensors"  # of experts, in the folder of a host


@dataclass(frozen=True)
class Leftover:
    """A folder that joining has made."""

    path: Path
    what: str  # for people
    link: str  # of the run; empty where the folder does not tell
    lock: Path | None  # file that a running peer has locked

    def bytes(self) -> int:
        """What it takes on the disk; a file with several names counts once."""
        sizes: dict[tuple[int, int], int] = {}
        for folder, _folders_in_it, names in os.walk(self.path):
            for path in (Path(folder), *(Path(folder, name) for name in names)):
                with contextlib.suppress(OSError):
                    status = path.lstat()
                    sizes[status.st_dev, status.st_ino] = status.st_blocks * 512
        return sum(sizes.values())


def leftovers(home: Path) -> list[Leftover]:
    """What joining has left in a folder: peers, then installations, then the log of failed starts."""
    found = [one for path in sorted(_folders(home)) if (one := _leftover(path))]
    return sorted(found, key=lambda one: (one.path.name == logs.FOLDER, one.path.name.startswith(PREFIX)))


def leave(url: str | None, confirm: Callable[[str], bool], say: Callable[[str], None]) -> None:
    """Remove what is for the run, or for all of them where no link is given.

    Args:
        confirm: asks whether to go on.
        say: tells one line.

    Raises:
        SahajError: there is nothing for this run, a peer runs from there, or something could not be removed.
    """
    home = cache_folder()
    found = leftovers(home)
    chosen = [one for one in found if url is None or one.link == url]
    if not chosen:
        links = sorted({one.link for one in found if one.link})
        raise SahajError(_nothing(home, url, ", ".join(links)))
    sizes = {one.path: one.bytes() for one in chosen}
    with contextlib.ExitStack() as locks:
        for one in chosen:
            if one.lock is not None:
                locks.enter_context(_alone(one, one.lock))
        for one in chosen:
            say(f"{one.path}: {one.what}, {_megabytes(sizes[one.path])}")
        if not confirm(_("Remove this? What you have contributed stays counted.")):
            raise SahajError(_("nothing was removed; --yes removes it without a question"))
        for one in chosen:
            _remove(one.path)
        _mend_links(home)
        with contextlib.suppress(OSError):  # where something else is in it
            home.rmdir()
    removed = several("Removed {n} folder, {size}.", "Removed {n} folders, {size}.", len(chosen))
    say(removed.format(n=len(chosen), size=_megabytes(sum(sizes.values()))))


def _mend_links(home: Path) -> None:
    """Have links to commands of an installation that is gone lead to one that is left; without any, remove them."""
    with contextlib.suppress(OSError):
        for link in sorted((home / COMMANDS).iterdir()):
            if link.is_symlink() and not link.exists() and link.readlink().is_relative_to(home):
                link.unlink()
                if others := sorted(home.glob(f"{PREFIX}*/venv/bin/{link.name}")):
                    link.symlink_to(others[0])
        (home / COMMANDS).rmdir()


def _nothing(home: Path, url: str | None, links: str) -> str:
    """That nothing is there to be removed."""
    if links:
        found = _(
            "{home}: nothing from {run} is here, only from {links}; if it is in another folder, set {variable} to that "
            "folder"
        )
    else:
        found = _("{home}: nothing from {run} is here; if it is in another folder, set {variable} to that folder")
    return found.format(home=home, run=url or _("any run"), links=links, variable=HOME)


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.0f} MB"


def _folders(home: Path) -> Iterator[Path]:
    with contextlib.suppress(OSError):
        for path in home.iterdir():
            if path.is_dir() and not path.is_symlink():
                yield path


def _leftover(path: Path) -> Leftover | None:
    """What a folder is, by what is in it; None for what joining has not made."""
    link = ""
    with contextlib.suppress(OSError, UnicodeDecodeError):
        link = (path / LINK).read_text(encoding="utf-8").strip()
    if is_file(path / IDENTITY):
        what = _("a peer of {link}")
        if next(path.glob(STATES), None) is not None:
            what = _("an expert host for {link} (its saved experts may be the only copies)")
        return Leftover(path, what.format(link=link or "?"), link, path / IDENTITY)
    if path.name.startswith(PREFIX) and is_file(path / LOCK):
        return Leftover(path, _("the program of {link}").format(link=link or "?"), link, path / LOCK)
    if path.name.startswith(PREFIX) and is_file(path / VENV):
        return Leftover(path, _("the program of a notebook"), "", None)
    if path.name == logs.FOLDER:
        return Leftover(path, _("the log of starts that failed"), "", None)
    return None


def _remove(folder: Path) -> None:
    """Remove a folder; by what goes last it is known again if this is interrupted.

    Raises:
        StorageError: something in it could not be removed.
    """
    try:
        for path in folder.iterdir():
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            elif path.name not in MARKS:
                path.unlink()
        shutil.rmtree(folder)
    except OSError as error:
        reason = _("{file}: could not be removed ({reason}); remove {folder} by hand")
        raise StorageError(reason.format(file=error.filename, reason=error.strerror, folder=folder)) from None


@contextlib.contextmanager
def _alone(one: Leftover, lock: Path) -> Iterator[IO[bytes]]:
    """Hold the folder's lock.

    Raises:
        SahajError: a peer has it, or it belongs to another user.
    """
    try:
        file = lock.open("rb")
    except OSError as error:
        reason = _("{file}: could not be opened ({reason}); run `sahaj leave` as the user who owns it")
        raise StorageError(reason.format(file=lock, reason=error.strerror)) from None
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            reason = _("{folder}: a peer runs there; stop it first (Ctrl-C), then leave").format(folder=one.path)
            raise SahajError(reason) from None
        yield file
