"""How much the averaging of this peer has carried today, kept in a file: a restart does not begin at zero."""

import contextlib
import datetime
import json
from collections.abc import Callable
from pathlib import Path

from swarm.errors import StorageError
from swarm.files import write_file

SAVE_EVERY = 16_000_000  # bytes
FILE_NAME = "traffic.json"


class DailyTraffic:
    """Of one peer.

    Args:
        file: where it is kept.
        now: the local time.
    """

    def __init__(self, file: Path, now: Callable[[], datetime.datetime] = datetime.datetime.now):
        self._file, self._now = file, now
        self._total = 0  # of this process, as last heard
        self._day, self._bytes = self._read()
        self._saved = self._bytes

    @property
    def today(self) -> int:
        """Bytes, in both directions."""
        return self._bytes if self._day == self._now().date() else 0

    def carried(self, total: int) -> None:
        """The process has carried so much since it began."""
        if (today := self._now().date()) != self._day:
            self._day, self._bytes, self._saved = today, 0, -SAVE_EVERY
        self._bytes, self._total = self._bytes + max(0, total - self._total), total
        if self._bytes - self._saved >= SAVE_EVERY:
            self.save()

    def save(self) -> None:
        """Write it down; a disk that is full costs the figure, and nothing else."""
        self._saved = self._bytes
        with contextlib.suppress(StorageError):
            write_file(self._file, json.dumps({"day": self._day.isoformat(), "bytes": self._bytes}), flush=False)

    def _read(self) -> tuple[datetime.date, int]:
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            found = json.loads(self._file.read_text(encoding="utf-8"))
            return datetime.date.fromisoformat(found["day"]), int(found["bytes"])
        return self._now().date(), 0
