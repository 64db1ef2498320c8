"""The organizer's notices by another way: the coordinator's HTTP service, where the swarm has gone silent.

Whoever is banned is refused by everybody's DHT, often before the notice that says so has reached them there.
"""

import logging
import threading
import time
from collections.abc import Callable
from typing import Protocol

from swarm.access.notices import Notices

logger = logging.getLogger(__name__)

SILENCE = 40.0  # seconds without newer notices after which the coordinator is asked; it tells some every 20 s
LOOK_EVERY = 1.0  # seconds between two looks at the newest notices
ASK_EVERY = 20.0  # seconds between two questions


class Hearing(Protocol):
    """The part of `swarm.access.gate.Gate` that is needed here."""

    @property
    def notices(self) -> Notices:
        """The newest that have been heard."""

    def take_notice(self, signed: bytes) -> None:
        """Use these notices from now on."""


def keep_hearing(gate: Hearing, ask: Callable[[], bytes], stop: threading.Event) -> None:
    """Ask for signed notices whenever the newest are old, until `stop` is set."""
    newest, heard, asked = 0.0, time.monotonic(), float("-inf")
    while not stop.wait(LOOK_EVERY):
        now = time.monotonic()  # not the clock of the notices: ours may be another
        if gate.notices.time != newest:
            newest, heard = gate.notices.time, now
        if now - heard < SILENCE or now - asked < ASK_EVERY:
            continue
        asked = now
        try:
            gate.take_notice(ask())
        except Exception as error:  # the coordinator is away: the renewal tells so, and training goes on
            logger.debug("notices could not be fetched: %r", error)
