"""The time by which passes expire: it stops while the HTTP service, which renews them, does not answer."""

import http.client
import logging
import threading
from urllib.parse import urlsplit

from coordinator.access.notice_store import NoticeStore
from swarm import clock

logger = logging.getLogger(__name__)

CHECK_EVERY = 5.0  # seconds between two requests
REQUEST_TIMEOUT = 5.0  # seconds
GRACE = 120.0  # seconds after an outage until passes expire again; peers try to renew about once a minute


class PassTime:
    """Follows the clock while the service answers; `time` is in unix seconds. How passes use it: see `Gate`."""

    def __init__(self, last: float):
        """`last` is its time when the coordinator stopped, 0 in a new run, which has no passes to renew yet."""
        self.time = last
        self._answers_since = None if last else float("-inf")

    def note(self, answers: bool, now: float) -> None:
        """Note whether the service answers at this time, in unix seconds."""
        if not answers:
            self._answers_since = None
            return
        self._answers_since = now if self._answers_since is None else self._answers_since
        if now >= self._answers_since + GRACE:
            self.time = max(self.time, now)


def answers(url: str) -> bool:
    """Whether the service answers a request. That its thread is alive is not enough: it may be out of connections."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=REQUEST_TIMEOUT)
    try:
        connection.request("GET", "/healthz")
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def keep_pass_time(url: str, notices: NoticeStore, stop: threading.Event) -> None:
    """Keep the notices' pass time until `stop` is set. `url` is where this machine reaches the service."""
    passes, answered = PassTime(notices.pass_time), True
    while True:
        found = answers(url)
        if stop.is_set():
            return
        passes.note(found, clock.now())
        notices.pass_time = passes.time
        if found is not answered:
            answered = found
            if found:
                logger.warning("the HTTP service answers again; passes expire again in %.0f s", GRACE)
            else:
                logger.warning("%s: the HTTP service does not answer; passes do not expire meanwhile", url)
        if stop.wait(CHECK_EVERY):
            return
