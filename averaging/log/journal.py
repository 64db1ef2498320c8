"""Writes to a disk that may be full: each is done after those before it, since it builds on them."""

from collections import deque
from collections.abc import Callable

from averaging.log.disk import Disk


class Journal:
    """Not for several threads at a time. Without a disk there is nothing to do."""

    def __init__(self, disk: Disk | None):
        self._disk = disk
        self._waiting: deque[Callable[[Disk], None]] = deque()  # that failed, and what came after

    @property
    def is_behind(self) -> bool:
        """Whether something is not on the disk yet, so that the disk needs what nothing else does any more."""
        return bool(self._waiting)

    def write(self, work: Callable[[Disk], None]) -> None:
        """Do it, after all that has failed before.

        Raises:
            StorageError: the disk takes nothing now; `catch_up` tries again, and so does the next write.
        """
        if self._disk is not None:
            self._waiting.append(work)
            self.catch_up()

    def catch_up(self) -> None:
        """Do what has failed.

        Raises:
            StorageError: it fails again.
        """
        while self._waiting:
            assert self._disk is not None
            self._waiting[0](self._disk)
            self._waiting.popleft()
