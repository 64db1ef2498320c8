"""Crash-safe files: written under another name, then fsync and rename, so that one with its final name is complete."""

import contextlib
import errno
import os
import shutil
import stat
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from fnmatch import fnmatchcase
from pathlib import Path

from swarm.errors import SahajError, StorageError
from swarm.language import _

PARTIAL = ".partial-"
NEARLY_FULL = 1 << 20  # bytes; a write that failed for want of room leaves less than this
AT_ONCE = 16  # files that are flushed together
OF_FILE_MANAGERS = (".DS_Store", "._*", "Thumbs.db", "desktop.ini")
OF_A_DISK = "lost+found"  # at the top of each
NOT_STORAGE = (ConnectionError, TimeoutError)  # of the network, though Python counts them as OSError
OTHERS = 0o077  # all rights of the group and of everybody else


def write_file(
    path: Path, content: bytes | str, *, mode: int = 0o666, flush: bool = True, replaces: bool = True
) -> None:
    """Replace the file at `path` with `content` (text is UTF-8), or leave it as it was.

    Args:
        mode: its rights, less those that the process's umask takes away; a key has 0o600 from its first moment.
        flush: have it on the disk before this returns. A file that is not flushed may be empty after a power cut.
        replaces: if not, a file that another process has just written there stays.

    Raises:
        StorageError: the disk is full or the folder cannot be written.
    """
    with whole_file(path, flush=flush, replaces=replaces) as partial:
        partial.touch(mode)
        partial.write_bytes(content.encode() if isinstance(content, str) else content)


@contextlib.contextmanager
def whole_file(path: Path, *, flush: bool = True, replaces: bool = True) -> Iterator[Path]:
    """Yield the name of a file to write; it takes the name `path` only when the block ends without an error.

    Args: see `write_file`.

    Raises:
        StorageError: the disk is full or the folder cannot be written.
    """
    partial = _partial_name(path)
    with _all_or_nothing(path, partial):
        path.parent.mkdir(parents=True, exist_ok=True)
        yield partial
        if flush:
            fsync(partial)
        if replaces:
            partial.replace(path)
        else:
            _name_if_free(partial, path)
        if flush:
            fsync(path.parent)


@contextlib.contextmanager
def whole_directory(path: Path) -> Iterator[Path]:
    """Yield an empty folder to fill; it takes the name `path` only when the block ends without an error.

    An older folder at `path`, or the one that a link there leads to, is replaced. A crash leaves at most a folder
    whose name starts with a dot and holds `.partial-`; `remove_partials` sweeps those.

    Raises:
        StorageError: the disk is full or the folder cannot be written.
    """
    path = path.resolve()
    partial, old = _partial_name(path), _partial_name(path, "old")
    with _all_or_nothing(path, partial):
        for leftover in (partial, old):  # in a container, a restarted process gets the number of the crashed one
            _clear(leftover)
        partial.mkdir(parents=True)
        yield partial
        for entry in (*partial.rglob("*"), partial):
            fsync(entry)
        try:
            if path.exists():
                path.replace(old)
            partial.replace(path)
        finally:
            fsync(path.parent)
            _clear(old)


def foreign_entry(folder: Path, own: Iterable[str]) -> str | None:
    """The name of something that `whole_directory` would delete with an older folder, but not write again.

    Args:
        own: patterns of the names that will be written.

    Raises:
        StorageError: it is no folder, or cannot be read.
    """
    with storage_errors(folder):
        names = sorted(entry.name for entry in folder.iterdir()) if folder.exists() else []
    own = (*own, *OF_FILE_MANAGERS)
    return next((name for name in names if not any(fnmatchcase(name, pattern) for pattern in own)), None)


def is_of_another_kind(folder: Path, signs: Iterable[str], *, besides: Iterable[str] = ()) -> bool:
    """Whether a folder holds something, and none of the files by which one of ours is known.

    Args:
        signs: names of these files.
        besides: patterns of names that do not count; those of half-written files do not either.

    Raises:
        StorageError: it is no folder, or cannot be read.
    """
    if foreign_entry(folder, (*besides, f".*{PARTIAL}*", OF_A_DISK)) is None:
        return False
    return not any((folder / sign).exists() for sign in signs)


def check_writable(path: Path) -> None:
    """Refuse, before hours of work, a place where no file or folder can be made.

    Raises:
        StorageError: it names the folder.
    """
    with storage_errors(path):
        parent = path.resolve().parent  # of what a link leads to, as in `whole_directory`
        while not parent.exists():
            parent = parent.parent
        is_folder = parent.is_dir()
    if not is_folder or not os.access(parent, os.W_OK | os.X_OK):
        raise StorageError(f"{path}: {parent} cannot be written; choose another folder")


def remove_partials(folder: Path) -> None:
    """Clear away what crashed writers left in `folder`; nobody may be writing there meanwhile."""
    for leftover in folder.glob(f".*{PARTIAL}*"):
        _clear(leftover)


def _clear(leftover: Path) -> None:
    """Remove a half-written file or folder.

    A writer that died in the instant between moving the old folder away and moving the new one in
    left no folder of that name: the old one gets its name back.
    """
    name, _dot, kind = leftover.name[1:].rpartition(PARTIAL)
    final = leftover.parent / name
    if kind.startswith("old-") and leftover.exists() and not final.exists():
        leftover.replace(final)
    elif leftover.is_dir():
        shutil.rmtree(leftover, ignore_errors=True)
    elif leftover.is_file():
        leftover.unlink()


def _name_if_free(partial: Path, path: Path) -> None:
    """Give a file its name unless there is one of this name."""
    with contextlib.suppress(FileExistsError):
        try:
            os.link(partial, path)
        except FileExistsError:
            raise
        except OSError:  # a file system without links, such as a mounted cloud drive
            path.touch(exist_ok=False)  # one process alone can do this
            partial.replace(path)
            return
    partial.unlink()


def _partial_name(path: Path, kind: str = "new") -> Path:
    return path.parent / f".{path.name}{PARTIAL}{kind}-{os.getpid()}-{threading.get_native_id()}"


def fsync(path: Path) -> None:
    """Have the content of a file, or the names in a folder, on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def fsync_all(paths: Iterable[Path]) -> None:
    """Have the contents of files on the disk; those that are gone are passed over.

    They wait together: a journaling file system writes its journal once for all that wait, which for the chunks of a
    small update takes a tenth of the time that one after the other does.
    """

    def flush(path: Path) -> None:
        with contextlib.suppress(FileNotFoundError):
            fsync(path)

    with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="fsync") as threads:
        for _flushed in threads.map(flush, paths):
            pass


@contextlib.contextmanager
def storage_errors(path: Path) -> Iterator[None]:
    """Tell a full or closed disk from other errors of a block that writes the file at `path`.

    Raises:
        StorageError: the disk is full or the folder cannot be written.
    """
    try:
        yield
    except Exception as error:
        if _is_full(path.parent) or os.strerror(errno.ENOSPC) in str(error):
            problem = _("{path}: could not be saved, the disk is full; free some space")
            raise StorageError(problem.format(path=path)) from error
        if isinstance(error, OSError) and error.errno is not None and not isinstance(error, NOT_STORAGE):
            reason = error.strerror or type(error).__name__
            problem = _("{path}: could not be saved ({reason}); choose another folder")
            raise StorageError(problem.format(path=path, reason=reason)) from error
        raise


def remove_file(path: Path) -> None:
    """Remove a file, if it is there.

    Raises:
        StorageError: it could not be removed.
    """
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        problem = _("{file}: could not be removed ({reason}); remove it by hand")
        raise StorageError(problem.format(file=path, reason=error.strerror or error)) from None


@contextlib.contextmanager
def lookup_errors(path: object, kind: type[SahajError]) -> Iterator[None]:
    """Say in one line why a path that somebody gave cannot be looked at, as without permission for its folder.

    Raises:
        kind: with the path and the reason.
    """
    try:
        yield
    except (OSError, RuntimeError) as error:  # the latter from `Path.expanduser`, for a user who has no home
        reason = getattr(error, "strerror", None) or error
        told = _("{path}: cannot be read ({reason}); correct the path or its permissions")
        raise kind(told.format(path=path, reason=reason)) from None


@contextlib.contextmanager
def _all_or_nothing(path: Path, partial: Path) -> Iterator[None]:
    """Remove what was half written when the block fails."""
    try:
        with storage_errors(path):  # inside, or the half-written files have made room again
            yield
    except BaseException:
        with contextlib.suppress(OSError):  # as in a folder that nobody else may look into
            _clear(partial)
        raise


def _is_full(folder: Path) -> bool:
    """Whether there is no room left; torch, for one, reports that as a mistake in its file format."""
    with contextlib.suppress(OSError):
        return shutil.disk_usage(folder).free < NEARLY_FULL
    return False


def keep_private(folder: Path) -> str | None:
    """Let only its owner read the folder of a peer: what is in it, and what the peer writes from now on.

    All other rights to its files and folders are taken away, and files written later give none. The latter holds for
    this process and its helpers as a whole: libraries write into the folder, too. Links in it are not followed.

    Returns:
        In one line what others can still read, or None.
    """
    os.umask(OTHERS)
    unchanged = []
    for place, _folders, files in os.walk(folder.resolve()):
        for path in (Path(place), *(Path(place, name) for name in files)):
            try:
                mode = path.lstat().st_mode
                if mode & OTHERS and not stat.S_ISLNK(mode):
                    path.chmod(stat.S_IMODE(mode) & ~OTHERS)
            except FileNotFoundError:  # a half-written file that has its name now
                continue
            except OSError as error:
                unchanged.append((path, error.strerror))
    if not unchanged:
        return None
    (path, reason), *others = unchanged
    told = (
        _(
            "{path}: others may read it ({reason}), and {n} more; make {folder} your own with chown, or choose another "
            "one with --state"
        )
        if others
        else _(
            "{path}: others may read it ({reason}); make {folder} your own with chown, or choose another one with "
            "--state"
        )
    )
    return _("attention: ") + told.format(path=path, reason=reason, n=len(others), folder=folder)
