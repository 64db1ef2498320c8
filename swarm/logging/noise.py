"""What does not reach the log although somebody says it: known to be harmless, or said over and over."""

import logging
import re
import time
from dataclasses import dataclass

MOST = 120  # messages from one place in the program within `WINDOW`
WINDOW = 60.0  # seconds
HOUR = 3600.0


@dataclass(frozen=True)
class Rule:
    """Messages of a logger, and of those below it, in which the pattern is found."""

    name: str
    logger: str
    pattern: re.Pattern[str]
    harmless: str  # why


# Each was seen in logs of swarms in which nothing was wrong, or a peer had only left.
RULES = (
    Rule(
        "the caller has hung up",
        "hivemind.p2p.p2p_daemon",
        re.compile(r"Exception while receiving requests.*(ConnectionResetError|IncompleteReadError|BrokenPipeError)"),
        "the other side has closed the stream: it has the whole answer, or it has left",
    ),
    Rule(
        "the node outlives its peer",
        "hivemind.dht.dht",
        re.compile(r"ConnectionResetError|BrokenPipeError|EOFError|FileNotFoundError|DHT did not shut down within"),
        "the peer is leaving, and nobody waits any more for what its DHT node was asked; the node is ended with it",
    ),
    Rule(
        "a call to a peer that has left",
        "asyncio",
        re.compile(
            r"exception was never retrieved.*(P2PHandlerError|P2PDaemonError|ControlFailure|DispatchFailure"
            r"|ConnectionResetError|BrokenPipeError|IncompleteReadError|CancelledError)",
            re.IGNORECASE | re.DOTALL,
        ),
        "hivemind has given up the call, and nobody waits for its end. What it was for tells whether it worked",
    ),
    Rule(
        "an unfinished task at the end",
        "asyncio",
        re.compile(r"^Task was destroyed but it is pending"),
        "the process has ended its loop while a call was under way",
    ),
)


def known_noise(record: logging.LogRecord) -> Rule | None:
    """The rule by which a message is noise. The exception belongs to the message."""
    text = record.getMessage()
    if record.exc_info and record.exc_info[1]:
        text = f"{text} {record.exc_info[1]!r}"
    for rule in RULES:
        if f"{record.name}.".startswith(f"{rule.logger}.") and rule.pattern.search(text):
            return rule
    return None


class NotAgain(logging.Filter):
    """For the console: lets a text through once an hour."""

    def __init__(self) -> None:
        super().__init__()
        self._told: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether it was not told lately."""
        now, text = time.monotonic(), record.getMessage()
        self._told = {one: when for one, when in self._told.items() if now - when < HOUR}
        return self._told.setdefault(text, now) == now


class Repeats(logging.Filter):
    """Lets through some messages a minute from one place in the program, and counts the rest.

    Strangers can make a peer refuse them as often as they like: they shall not rotate away what else is in the log.
    """

    def __init__(self, *, but_of: str) -> None:
        super().__init__()
        self._but_of = but_of  # the logger of what the console says: it comes from one place and is not too much
        self._places: dict[tuple[str, int], list[float]] = {}  # since when, let through, left out

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether there is room for it; the first one of a new minute says how many there was none for."""
        if record.name == self._but_of:
            return True
        now = time.monotonic()
        place = self._places.setdefault((record.pathname, record.lineno), [now, 0, 0])
        since, _, left_out = place
        if now - since >= WINDOW:
            if left_out:
                record.msg = f"{record.getMessage()} [{left_out:.0f} more like this were left out]"
                record.args = None
            place[:] = [now, 0, 0]
        place[1] += 1
        if place[1] > MOST:
            place[2] += 1
            return False
        return True
