"""What the log leaves out: messages known to be harmless, and repetitions."""

import logging
import re
import time
from collections import Counter
from collections.abc import Callable

from swarm.rate_limit import RateLimit

# Logger and pattern; the message is searched with the exception behind it. Each was seen in swarms in which nothing was
# wrong, or in which a peer had only left.
HARMLESS = (
    # the other side closed the stream: it has the whole answer, or it has left
    (
        "hivemind.p2p.p2p_daemon",
        re.compile(r"Exception while receiving requests.*(ConnectionResetError|IncompleteReadError|BrokenPipeError)"),
    ),
    # the peer is leaving: its DHT node outlives its main process for a moment
    (
        "hivemind.dht.dht",
        re.compile(r"ConnectionResetError|BrokenPipeError|EOFError|FileNotFoundError|DHT did not shut down within"),
    ),
    # a call to a peer that has left: hivemind gave up the call, and its caller has seen the failure
    (
        "asyncio",
        re.compile(
            r"exception was never retrieved.*(P2PHandlerError|P2PDaemonError|ControlFailure|DispatchFailure"
            r"|ConnectionResetError|BrokenPipeError|IncompleteReadError|CancelledError)",
            re.IGNORECASE | re.DOTALL,
        ),
    ),
    # the process closed its event loop while a call was under way
    ("asyncio", re.compile(r"^Task was destroyed but it is pending")),
)


def is_harmless(record: logging.LogRecord) -> bool:
    """Whether a message is known noise."""
    text = record.getMessage()
    if record.exc_info and record.exc_info[1]:
        text = f"{text} {record.exc_info[1]!r}"
    return any(record.name == logger and pattern.search(text) for logger, pattern in HARMLESS)


class LimitRepeats(logging.Filter):
    """Lets `most` records with the same `key` through in `seconds`; the next one says how many were left out.

    Strangers can make a peer refuse them as often as they like: that must not push everything else out of the log.
    """

    def __init__(
        self,
        most: int,
        seconds: float,
        key: Callable[[logging.LogRecord], str],
        clock: Callable[[], float] = time.monotonic,
    ):
        """`key` has few values: what is left out is counted for each. The record is changed, for later handlers too."""
        super().__init__()
        self._limit, self._key, self._left_out = RateLimit(most, seconds, keys=1000, clock=clock), key, Counter[str]()

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the record is within the limit."""
        key = self._key(record)
        if self._limit.attempt(key) is not None:
            self._left_out[key] += 1
            return False
        if left_out := self._left_out.pop(key, 0):
            record.msg, record.args = f"{record.getMessage()} [{left_out} more like this were left out]", None
        return True
