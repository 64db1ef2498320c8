"""Watches for the notice that Amazon gives two minutes before it takes a spot instance back.

The notice appears in the instance metadata service (version 2, which wants a token first); the peer then leaves as on
SIGTERM. Other clouds need no watching: they shut the machine down, and its init system sends SIGTERM.
"""

import os
import signal
import threading
import time
from collections.abc import Callable

import httpx

from swarm.language import _

METADATA = "http://169.254.169.254"  # link-local
METADATA_VARIABLE = "SAHAJ_METADATA"  # environment variable: another address, for tests
TIMEOUT = 2.0  # seconds; the service is in the machine's own host
CHECK_EVERY = 5.0  # seconds, as Amazon recommends
TOKEN_LIFETIME = "60"  # seconds; each check asks for a token of its own
AMAZON_GRACE = 100.0  # seconds of Amazon's 120 in which a global step may be finished; the rest is for leaving
OTHER_GRACE = 15.0  # seconds; machines of Google are shut down within 30


class SpotNotice:
    """A thread that sends this process SIGTERM on the notice. `grace` is the time for finishing a global step then.

    Args:
        say: called with one line when the notice comes.
    """

    def __init__(self, say: Callable[[str], None]):
        self._say = say
        self.grace = OTHER_GRACE if _ask_metadata() is None else AMAZON_GRACE  # seconds

    def start(self) -> None:
        """Start to watch; hivemind's processes must have been forked before."""
        threading.Thread(target=self._watch, name="spot notice", daemon=True).start()

    def _watch(self) -> None:
        while not (notice := _ask_metadata()):
            time.sleep(CHECK_EVERY)
        self._say(
            _(
                "Amazon is taking this machine back ({notice}): the program finishes the global step if it can, then "
                "leaves the run."
            ).format(notice=notice)
        )
        os.kill(os.getpid(), signal.SIGTERM)


def _ask_metadata() -> str | None:
    """What the notice says, empty while there is none; None where no such service answers."""
    url = os.environ.get(METADATA_VARIABLE) or METADATA
    try:
        # a connection that was kept open would be shared with the processes that hivemind forks
        with httpx.Client(base_url=url, timeout=TIMEOUT, trust_env=False) as client:
            lifetime = {"X-aws-ec2-metadata-token-ttl-seconds": TOKEN_LIFETIME}
            token = client.put("/latest/api/token", headers=lifetime).raise_for_status().text
            path, headers = "/latest/meta-data/spot/instance-action", {"X-aws-ec2-metadata-token": token}
            answer = client.get(path, headers=headers)
            if answer.status_code == httpx.codes.NOT_FOUND:
                return ""
            action = answer.raise_for_status().json()
            return f"{action['action']} at {action['time']}"
    except (httpx.HTTPError, ValueError, KeyError, TypeError):
        return None
