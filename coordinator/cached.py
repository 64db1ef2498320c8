"""A value that is found at most once in some seconds, however often it is asked for."""

import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Cached(Generic[T]):
    """A value that is costly to find. While one thread finds it anew, the others get the old one."""

    def __init__(self, find: Callable[[], T], seconds: float, clock: Callable[[], float] = time.monotonic):
        self._find, self._seconds, self._clock = find, seconds, clock
        self._lock = threading.Lock()
        self._found: tuple[float, T] | None = None  # until when it is good

    def __call__(self) -> T:
        """The value, at most so many seconds old; an error is not cached."""
        known = self._found
        if known is not None and self._clock() < known[0]:
            return known[1]
        if not self._lock.acquire(blocking=known is None):
            assert known is not None, "otherwise the lock was waited for"
            return known[1]
        try:
            newest = self._found
            if newest is not known and newest is not None:  # another thread found it while this one waited
                return newest[1]
            value = self._find()
            self._found = (self._clock() + self._seconds, value)
            return value
        finally:
            self._lock.release()

    def forget(self) -> None:
        """Find it anew the next time."""
        self._found = None
