"""Reads a remote source in a background thread, so that a slow or hanging connection blocks nothing."""

import atexit
import queue
import threading
from collections.abc import Iterator
from dataclasses import dataclass

from corpus.source import Failed, Item

# Documents read ahead of a remote source
READ_AHEAD = 512
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
        self._queue: queue.Queue[Item | Exception | None] = queue.Queue(READ_AHEAD)  # at its end an error or None
        self._resume = threading.Event()
        self._closed = threading.Event()
        self._paused = False
        self._thread = threading.Thread(target=self._run, name="documents", daemon=True)
        self._thread.start()
        atexit.register(self.close)

    def __next__(self) -> Item | NotYet:
        if self._paused:
            self._paused = False
            self._resume.set()
        try:
            item = self._queue.get_nowait()
        except queue.Empty:
            return NotYet()
        if item is None:
            raise StopIteration
        if isinstance(item, Exception):
            raise item
        self._paused = isinstance(item, Failed)
        return item

    def close(self) -> None:
        """End the thread, or let it end by itself once its connection returns."""
        atexit.unregister(self.close)
        self._closed.set()
        self._resume.set()
        self._thread.join(CLOSE_SECONDS)

    def _run(self) -> None:
        last: Exception | None = None
        try:
            for item in self._items:
                if not self._put(item):
                    return
                if isinstance(item, Failed):
                    self._resume.wait()
                    self._resume.clear()
        except Exception as error:
            last = error
        self._put(last)

    def _put(self, item: Item | Exception | None) -> bool:
        while not self._closed.is_set():
            try:
                self._queue.put(item, timeout=0.2)
                return True
            except queue.Full:
                continue
        return False
