"""A preemptible machine: leaving when its cloud gives notice that it takes the machine away.

Each cloud tells it at the same address in a way of its own: Amazon's instance metadata service (version 2, which wants
a token first), Google's metadata server, and Azure's scheduled events.
"""

import os
import signal
import threading
from collections.abc import Callable
from dataclasses import dataclass

import httpx

METADATA = "http://169.254.169.254"  # link-local, on all three
ELSEWHERE = "SAHAJ_METADATA"  # environment variable: another address, for tests
PATIENCE = 2.0  # seconds for an answer from within the machine's own host
LOOK_EVERY = 5.0  # seconds; as often as Amazon recommends
TOKEN_LIFETIME = 21600  # seconds, the longest; a new one is asked for with each look all the same


@dataclass(frozen=True)
class Cloud:
    """How one cloud gives notice. `notice` returns what it says, or None while there is nothing."""

    name: str
    grace: float  # seconds in which a global step may be finished; the rest of the notice is for leaving
    notice: Callable[[httpx.Client], str | None]


def amazon(client: httpx.Client) -> str | None:
    """EC2: `spot/instance-action` appears two minutes before."""
    lifetime = {"X-aws-ec2-metadata-token-ttl-seconds": str(TOKEN_LIFETIME)}
    token = client.put("/latest/api/token", headers=lifetime).raise_for_status().text
    headers = {"X-aws-ec2-metadata-token": token}
    answer = client.get("/latest/meta-data/spot/instance-action", headers=headers)
    if answer.status_code == 404:
        return None
    told = answer.raise_for_status().json()
    return f"{told['action']} at {told['time']}"


def google(client: httpx.Client) -> str | None:
    """Compute Engine: `preempted` becomes TRUE about half a minute before."""
    answer = client.get("/computeMetadata/v1/instance/preempted", headers={"Metadata-Flavor": "Google"})
    return "preempted" if answer.raise_for_status().text.strip() == "TRUE" else None


def azure(client: httpx.Client) -> str | None:
    """Azure: an event of the type Preempt or Terminate, at least half a minute before."""
    query = {"api-version": "2020-07-01"}
    answer = client.get("/metadata/scheduledevents", params=query, headers={"Metadata": "true"})
    for event in answer.raise_for_status().json()["Events"]:
        if event["EventType"] in ("Preempt", "Terminate"):
            return f"{event['EventType'].lower()} not before {event.get('NotBefore') or 'now'}"
    return None


CLOUDS = (
    Cloud("Amazon", 100.0, amazon),
    Cloud("Google", 15.0, google),
    Cloud("Azure", 15.0, azure),
)


class Spot:
    """The cloud around this machine, and a thread that waits for its notice.

    Args:
        say: told in one line what happens.
    """

    def __init__(self, say: Callable[[str], None]):
        self._say = say
        self._cloud = next((cloud for cloud in CLOUDS if _answers(cloud)), None)
        if self._cloud is None:
            say("No cloud answers at this machine: nobody will give notice before it is taken away.")

    @property
    def grace(self) -> float | None:
        """Seconds that a notice leaves to finish a global step; None where there is no cloud."""
        return self._cloud.grace if self._cloud else None

    def start(self) -> None:
        """Begin to look; call it when the peer's processes have been forked."""
        if self._cloud is not None:
            threading.Thread(target=self._watch, args=(self._cloud,), name="spot", daemon=True).start()

    def _watch(self, cloud: Cloud) -> None:
        pause = threading.Event()
        while not (told := _told(cloud)):
            pause.wait(LOOK_EVERY)
        self._say(f"{cloud.name} takes this machine away ({told}): finishing what can be finished, then leaving.")
        os.kill(os.getpid(), signal.SIGTERM)


def _told(cloud: Cloud) -> str | None:
    try:
        return _ask(cloud)
    except (httpx.HTTPError, ValueError, KeyError, TypeError):  # it may answer again the next time
        return None


def _answers(cloud: Cloud) -> bool:
    try:
        _ask(cloud)
    except (httpx.HTTPError, ValueError, KeyError, TypeError):
        return False
    return True


def _ask(cloud: Cloud) -> str | None:
    # a connection that was kept open would be shared with the processes that hivemind forks
    base = os.environ.get(ELSEWHERE) or METADATA
    with httpx.Client(base_url=base, timeout=PATIENCE, trust_env=False) as client:
        return cloud.notice(client)
