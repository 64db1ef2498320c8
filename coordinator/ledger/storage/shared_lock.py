"""Many use a ledger's database at once, and whoever puts another file in its place waits until nobody does."""

import contextlib
import threading
from collections.abc import Iterator
from weakref import WeakKeyDictionary

from sqlalchemy import Engine


class Door:
    """A lock that is shared by those who use the database, and held alone by whoever replaces it."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._inside = 0
        self._closed = False

    @contextlib.contextmanager
    def shared(self) -> Iterator[None]:
        """Use the database."""
        with self._changed:
            self._changed.wait_for(lambda: not self._closed)
            self._inside += 1
        try:
            yield
        finally:
            with self._changed:
                self._inside -= 1
                self._changed.notify_all()

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Replace it; nobody uses it meanwhile. One that is inside already must not come here."""
        with self._changed:
            self._changed.wait_for(lambda: not self._closed)
            self._closed = True
            self._changed.wait_for(lambda: not self._inside)
        try:
            yield
        finally:
            with self._changed:
                self._closed = False
                self._changed.notify_all()


_doors: "WeakKeyDictionary[Engine, Door]" = WeakKeyDictionary()
_making = threading.Lock()


def door_of(engine: Engine) -> Door:
    """The door of a database, for all who share its engine."""
    with _making:
        return _doors.setdefault(engine, Door())
