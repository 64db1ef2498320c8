"""Looks twice a second whether the trainer has to pause, and how much of the time it may compute.

A thread looks; the training loop asks between two batches, and a batch that takes long in between.
"""

import datetime
import logging
import threading
import time
from collections.abc import Callable

from trainer.pausing.daily_traffic import DailyTraffic
from trainer.pausing.decision import Cause, Facts, Pause, reason_to_pause
from trainer.pausing.driver import Read
from trainer.pausing.duty_cycle import MEASURE_EVERY, DutyCycle
from trainer.pausing.wishes import Wishes

logger = logging.getLogger(__name__)

LOOK_EVERY = MEASURE_EVERY  # seconds
FORBIDDEN_FOR = 60.0  # seconds without a batch after which a limit of the GPU counts as one that cannot be held
LEAVES_WITHIN = 30.0  # seconds in which a peer that leaves for a long pause waits for the round with what it has


class PauseWatch:
    """What the volunteer's wishes say now.

    Args:
        read: the facts of this machine.
        daily: is told how many bytes averaging has carried; None: there is no limit for it.
        clock: monotonic seconds.
        now: the local time.
    """

    def __init__(
        self,
        wishes: Wishes | None = None,
        read: Callable[[], Facts] = Facts,
        daily: DailyTraffic | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime.datetime] = datetime.datetime.now,
    ):
        self.wishes = wishes or Wishes()
        self._read, self._daily, self._clock, self._now = read, daily, clock, now
        self._newest: tuple[Pause, float] | None = None  # and since when this peer has paused
        self._forbidden_since: float | None = None  # by a limit of the GPU
        self._driver: Read | None = None
        self._traffic: Callable[[], int] = lambda: 0
        self._ended = threading.Event()
        self.duty = DutyCycle(self.wishes, clock)

    @property
    def pause(self) -> Pause | None:
        """Why the trainer pauses; None: it may train."""
        newest = self._newest
        return None if newest is None else newest[0]

    @property
    def seconds_to_leave(self) -> float | None:
        """How long the peer may stay to bring what it has gathered; None: it need not leave, as it does not pause."""
        newest = self._newest
        if newest is None or self._clock() < newest[1] + newest[0].cause.stays:
            return None
        return max(0.0, newest[1] + newest[0].cause.stays + LEAVES_WITHIN - self._clock())

    def look(self) -> Pause | None:
        """Look once."""
        if self._daily is not None:
            self._daily.carried(self._traffic())
        pause = reason_to_pause(self._now(), self._read(), self.wishes) or self._limit_not_held()
        before = self._newest
        self._newest = None if pause is None else (pause, self._clock() if before is None else before[1])
        return pause

    def _limit_not_held(self) -> Pause | None:
        if not self.duty.forbids:
            self._forbidden_since = None
        elif self._forbidden_since is None:
            self._forbidden_since = self._clock()
        since = self._forbidden_since
        return None if since is None or self._clock() < since + FORBIDDEN_FOR else Pause(Cause.LIMIT)

    def measure(self) -> None:
        """Look at the GPU, if there is a limit to hold."""
        if self._driver is None:
            return
        try:
            self.duty.measured(self._driver())
        except Exception:
            self.duty.lost()
            raise

    def start(self, traffic: Callable[[], int] = lambda: 0, driver: Read | None = None) -> None:
        """Look from now on; hivemind's processes must have been forked before.

        Args:
            traffic: bytes that averaging has carried until now.
        """
        self._traffic, self._driver = traffic, driver
        threading.Thread(target=self._keep_looking, name="pauses", daemon=True).start()

    def stop(self) -> None:
        """Look no more."""
        self._ended.set()
        if self._daily is not None:
            self._daily.save()

    def _keep_looking(self) -> None:
        failing = set()
        while not self._ended.wait(LOOK_EVERY):
            for look in (self.look, self.measure):
                try:
                    look()
                    failing.discard(look)
                except Exception:
                    if look not in failing:
                        logger.exception("what this machine is doing cannot be read")
                    failing.add(look)
