"""The time by which passes expire: it stands still while the HTTP service, where they are renewed, is shut."""

import http.client
import logging
import threading
from urllib.parse import urlsplit

from coordinator.access.notice_store import NoticeStore
from swarm import clock

logger = logging.getLogger(__name__)

LOOK_EVERY = 5.0  # seconds between two requests
ANSWERED_WITHIN = 5.0  # seconds
GRACE = 120.0  # seconds after a gap in which everybody can renew: peers that could not try again about each minute


class PassTime:
    """Follows the clock; `time` is in unix seconds. A pass is good until then, or for somewhat longer (see `Gate`)."""

    def __init__(self, last: float):
        """Go on from where it stood when the coordinator stopped; 0 in a new run, in which nobody has to renew yet."""
        self.time = last
        self._since = None if last else float("-inf")

    def note(self, answers: bool, now: float) -> None:
        """Whether the service answers now, at this unix time in seconds."""
        if not answers:
            self._since = None
            return
        self._since = now if self._since is None else self._since
        if now >= self._since + GRACE:
            self.time = max(self.time, now)


def answers(url: str) -> bool:
    """Ask the service as others do: a thread that is alive may still have no connection for anybody."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=ANSWERED_WITHIN)
    try:
        connection.request("GET", "/healthz")
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def keep_pass_time(url: str, board: NoticeStore, stop: threading.Event) -> None:
    """Set the board's time of passes until `stop` is set. `url` is where this machine reaches the service."""
    passes, answered = PassTime(board.pass_time), True
    while True:
        found = answers(url)
        if stop.is_set():
            return
        passes.note(found, clock.now())
        board.pass_time = passes.time
        if found is not answered:
            answered = found
            if found:
                logger.warning("the HTTP service answers again; passes expire again in %.0f s", GRACE)
            else:
                logger.warning("%s: the HTTP service does not answer; passes do not expire meanwhile", url)
        if stop.wait(LOOK_EVERY):
            return
