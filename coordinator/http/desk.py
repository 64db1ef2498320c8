"""What the HTTP service holds in memory: files it serves, answers, and users with their avatars."""

import hashlib
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from swarm.access.join_messages import TokenizerFile
from swarm.errors import TokenizerError

T = TypeVar("T")
MOST_PEOPLE = 10_000


@dataclass(frozen=True)
class ServedFile:
    """A file that volunteers fetch, held in memory: its hash stays true, and a path is only a key."""

    about: TokenizerFile
    content: bytes


def tokenizer_files(folder: Path) -> dict[str, ServedFile]:
    """The files of a tokenizer's folder, by name.

    Raises:
        TokenizerError: there are none, or they cannot be read.
    """
    try:
        paths = [path for path in sorted(folder.iterdir()) if path.is_file() and not path.name.startswith(".")]
        files = {path.name: _served(path) for path in paths}
    except OSError as error:
        raise TokenizerError(f"{folder}: the tokenizer cannot be read ({error.strerror})") from None
    if not files:
        raise TokenizerError(f"{folder}: no tokenizer files; make them with `sahaj tokenizer train`")
    return files


def _served(path: Path) -> ServedFile:
    content = path.read_bytes()
    digest = hashlib.sha256(content).hexdigest()
    return ServedFile(TokenizerFile(name=path.name, sha256=digest, size=len(content)), content)


class Remembered(Generic[T]):
    """An answer that costs something, for some seconds; while one thread renews it, others get the old one."""

    def __init__(self, find: Callable[[], T], seconds: float, clock: Callable[[], float] = time.monotonic):
        self._find, self._seconds, self._clock = find, seconds, clock
        self._lock = threading.Lock()
        self._answer: tuple[float, T] | None = None

    def __call__(self) -> T:
        """The answer, at most so old; an error is not remembered."""
        known = self._answer
        if known is not None and self._clock() < known[0]:
            return known[1]
        if not self._lock.acquire(blocking=known is None):
            assert known is not None, "the lock was waited for"
            return known[1]
        try:
            newest = self._answer
            if newest is not known and newest is not None:  # another thread found it while this one waited
                return newest[1]
            answer = self._find()
            self._answer = (self._clock() + self._seconds, answer)
            return answer
        finally:
            self._lock.release()


class People:
    """Those who were given a pass since the start, with the URLs of their avatars. Threads may share it."""

    def __init__(self) -> None:
        self._avatars: OrderedDict[str, str | None] = OrderedDict()
        self._lock = threading.Lock()

    def meet(self, user: str, avatar: str | None) -> None:
        """Remember somebody, and forget whoever was here longest ago if there are too many."""
        with self._lock:
            self._avatars[user] = avatar
            self._avatars.move_to_end(user)
            while len(self._avatars) > MOST_PEOPLE:
                self._avatars.popitem(last=False)

    def avatar(self, user: str) -> str | None:
        """The URL of somebody's avatar, where it is known."""
        return self._avatars.get(user)

    def names(self) -> list[str]:
        """Their names as in their passes."""
        with self._lock:
            return list(self._avatars)
