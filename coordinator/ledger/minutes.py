"""Writes a row of the run's history into the ledger once a minute."""

import statistics
import time
from collections.abc import Callable

from coordinator.ledger.history import MINUTE
from coordinator.ledger.ledger import Ledger


class MinuteRecorder:
    """Not for several threads."""

    def __init__(self, ledger: Ledger, clock: Callable[[], float] = time.time):
        self._ledger, self._clock = ledger, clock
        self._rounds: list[float] = []  # seconds of each that ended since the last row
        self._noted: int | None = None  # the newest minute that has a row

    def round_ended(self, seconds: float) -> None:
        """A round in which the coordinator took part has ended."""
        self._rounds.append(seconds)

    def note(self, step: int) -> None:
        """Write a row if a new minute has begun.

        Raises:
            LedgerError: it could not be written; the next call tries again.
        """
        now = self._clock()
        minute = int(now) // MINUTE
        if minute == self._noted:
            return
        seconds = statistics.fmean(self._rounds) if self._rounds else None
        self._ledger.history.note_minute(step, averaging_seconds=seconds, now=now)
        self._noted, self._rounds = minute, []
