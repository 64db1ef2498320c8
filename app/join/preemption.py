"""A preemptible machine: leaving when its cloud gives notice that it takes the machine away.

Each cloud tells it at the same address in a way of its own: Amazon's instance metadata service (version 2, which wants
a token first), Google's metadata server, and Azure's scheduled events.
"""

import os
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import httpx

METADATA = "http://169.254.169.254"  # link-local, on all three
ELSEWHERE = "SAHAJ_METADATA"  # environment variable: another address, for tests
PATIENCE = 2.0  # seconds for an answer from within the machine's own host
SLOW_START = 125.0  # seconds; Azure's first answer about events, which switches them on, may take two minutes
LOOK_EVERY = 5.0  # seconds; as often as Amazon recommends
Answer = TypeVar("Answer")
NO_ANSWER = (httpx.HTTPError, ValueError, KeyError, TypeError)
TOKEN_LIFETIME = 21600  # seconds, the longest; a new one is asked for with each look all the same


@dataclass(frozen=True)
class Cloud:
    """How one cloud is recognized, and how it gives notice.

    `sign` raises where this is not its machine. `notice` returns what it says, or None while there is nothing.
    """

    name: str
    grace: float  # seconds in which a global step may be finished; the rest of the notice is for leaving
    sign: Callable[[httpx.Client], object]
    notice: Callable[[httpx.Client], str | None]
    first: float = PATIENCE  # seconds for the first answer of `notice`


def amazon_token(client: httpx.Client) -> str:
    """EC2: what every other question needs."""
    lifetime = {"X-aws-ec2-metadata-token-ttl-seconds": str(TOKEN_LIFETIME)}
    return client.put("/latest/api/token", headers=lifetime).raise_for_status().text


def amazon(client: httpx.Client) -> str | None:
    """EC2: `spot/instance-action` appears two minutes before."""
    headers = {"X-aws-ec2-metadata-token": amazon_token(client)}
    answer = client.get("/latest/meta-data/spot/instance-action", headers=headers)
    if answer.status_code == 404:
        return None
    told = answer.raise_for_status().json()
    return f"{told['action']} at {told['time']}"


def google(client: httpx.Client) -> str | None:
    """Compute Engine: `preempted` becomes TRUE about half a minute before."""
    answer = client.get("/computeMetadata/v1/instance/preempted", headers={"Metadata-Flavor": "Google"})
    return "preempted" if answer.raise_for_status().text.strip() == "TRUE" else None


def azure_name(client: httpx.Client) -> str:
    """Azure: what events call this machine."""
    query = {"api-version": "2021-02-01", "format": "text"}
    answer = client.get("/metadata/instance/compute/name", params=query, headers={"Metadata": "true"})
    return answer.raise_for_status().text.strip()


def azure(client: httpx.Client) -> str | None:
    """Azure: an event of the type Preempt or Terminate, at least half a minute before.

    All machines of an availability set or a scale set are told of each other's events.
    """
    query = {"api-version": "2020-07-01"}
    answer = client.get("/metadata/scheduledevents", params=query, headers={"Metadata": "true"})
    for event in answer.raise_for_status().json()["Events"]:
        if event["EventType"] in ("Preempt", "Terminate") and azure_name(client) in event["Resources"]:
            return f"{event['EventType'].lower()} not before {event.get('NotBefore') or 'now'}"
    return None


CLOUDS = (
    Cloud("Amazon", 100.0, amazon_token, amazon),
    Cloud("Google", 15.0, google, google),
    Cloud("Azure", 15.0, azure_name, azure, SLOW_START),
)


class Spot:
    """The cloud around this machine, and a thread that waits for its notice.

    Args:
        say: told in one line what happens.
    """

    def __init__(self, say: Callable[[str], None]):
        self._say = say
        self._cloud = _recognize()
        if self._cloud is None:
            say("No cloud answers at this machine yet; until one does, nobody gives notice before it is taken away.")

    @property
    def grace(self) -> float | None:
        """Seconds that a notice leaves to finish a global step; None where no cloud has answered."""
        return self._cloud.grace if self._cloud else None

    def start(self) -> None:
        """Begin to look; call it when the peer's processes have been forked."""
        threading.Thread(target=self._watch, name="spot", daemon=True).start()

    def _watch(self) -> None:
        while (cloud := self._cloud or _recognize()) is None:
            time.sleep(LOOK_EVERY)
        patience = cloud.first
        while True:
            try:
                told = _ask(cloud.notice, patience)
                patience = PATIENCE
            except NO_ANSWER:  # it may answer the next time
                told = None
            if told:
                break
            time.sleep(LOOK_EVERY)
        self._say(f"{cloud.name} takes this machine away ({told}): finishing what can be finished, then leaving.")
        os.kill(os.getpid(), signal.SIGTERM)


def _recognize() -> Cloud | None:
    for cloud in CLOUDS:
        try:
            _ask(cloud.sign, PATIENCE)
        except NO_ANSWER:
            continue
        return cloud
    return None


def _ask(question: Callable[[httpx.Client], Answer], patience: float) -> Answer:
    # a connection that was kept open would be shared with the processes that hivemind forks
    base = os.environ.get(ELSEWHERE) or METADATA
    with httpx.Client(base_url=base, timeout=patience, trust_env=False) as client:
        return question(client)
