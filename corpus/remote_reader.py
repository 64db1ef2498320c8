"""Reads a remote source in a background thread, so that a slow or hanging connection blocks nothing."""

import atexit
import threading
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from corpus.source import Failed, Item

# Documents read ahead of a remote source
READ_AHEAD = 512
# In these documents, beyond which no more are read: five hundred books would fill the memory of a small machine
MOST_CHARACTERS = 8_000_000
# Seconds that closing waits for the thread: one inside a C++ library when Python ends aborts the process
CLOSE_SECONDS = 2.0


@dataclass(frozen=True)
class NotYet:
    """No item is ready yet."""


class RemoteReader(Iterator[Item | NotYet]):
    """The items of a pass, without blocking: `NotYet` when none is ready.

    After a `Failed` the thread pauses until the next item is asked for: the caller decides how long to wait.
    An exception in the pass is raised to the caller.
    """

    def __init__(self, items: Iterator[Item]) -> None:
        self._items = items
        self._ahead: deque[Item | Exception | None] = deque()  # at its end an error or None
        self._characters = 0  # in it
        self._changed = threading.Condition()
        self._closed = self._paused = self._resumes = False
        self._thread = threading.Thread(target=self._run, name="documents", daemon=True)
        self._thread.start()
        atexit.register(self.close)

    def __next__(self) -> Item | NotYet:
        with self._changed:
            if self._paused:
                self._paused, self._resumes = False, True
            item = self._ahead.popleft() if self._ahead else NotYet()
            if isinstance(item, str):
                self._characters -= len(item)
            self._changed.notify()
        if item is None:
            raise StopIteration
        if isinstance(item, Exception):
            raise item
        self._paused = isinstance(item, Failed)
        return item

    def close(self) -> None:
        """End the thread, or let it end by itself once its connection returns."""
        atexit.unregister(self.close)
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join(CLOSE_SECONDS)

    def _run(self) -> None:
        last: Exception | None = None
        try:
            for item in self._items:
                self._put(item)
                if isinstance(item, Failed):
                    self._wait_to_resume()
                if self._closed:
                    return
        except Exception as error:
            last = error
        self._put(last)

    def _put(self, item: Item | Exception | None) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._has_room())
            self._ahead.append(item)
            if isinstance(item, str):
                self._characters += len(item)

    def _has_room(self) -> bool:
        return len(self._ahead) < READ_AHEAD and self._characters < MOST_CHARACTERS

    def _wait_to_resume(self) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._resumes)
            self._resumes = False
