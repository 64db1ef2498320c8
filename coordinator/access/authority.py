"""The coordinator's side of access: it signs passes, checks those of peers, and publishes the organizer's notices."""

import logging
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from hivemind.dht import DHT

from coordinator.access.notice_store import NoticeStore
from coordinator.state_folder import AUTHORITY
from swarm.access.gate import Gate
from swarm.access.passes import COORDINATOR, Authority, load_authority
from swarm.dht.notices_in_dht import publish_notices
from swarm.errors import StorageError
from swarm.identity import Identity

logger = logging.getLogger(__name__)

OWN_PASS = 365 * 86400.0  # seconds; the coordinator gives itself a new one at each start
PUBLISH_EVERY = 20.0  # seconds between two publications when nothing was decided: they show that the coordinator lives
POLL_EVERY = 1.0  # seconds; the longest time from a decision to its publication


@dataclass(frozen=True)
class AccessControl:
    """What signs passes, what the organizer has decided, and what checks the passes of other peers."""

    authority: Authority
    notices: NoticeStore
    gate: Gate


def open_access_control(run_name: str, folder: Path, identity: Identity, lifetime: float) -> AccessControl:
    """The access control of a coordinator with this state folder; passes last for `lifetime` seconds.

    Raises:
        SwarmError: the authority's key or the notices in the folder cannot be read.
    """
    authority = load_authority(folder / AUTHORITY)
    notices = NoticeStore(folder, authority, run_name)
    notices.coordinator = str(identity.peer_id)
    own = authority.issue(run_name, COORDINATOR, identity.peer_id, OWN_PASS)
    gate = Gate(folder, run_name, authority.public_key, own, notices.current(), lifetime)
    return AccessControl(authority, notices, gate)


def keep_publishing(access: AccessControl, dht: DHT, identity: Identity, stop: threading.Event) -> None:
    """Publish the notices after each decision, and every `PUBLISH_EVERY` seconds, until `stop` is set."""
    published, published_at = None, float("-inf")
    while not stop.wait(POLL_EVERY):
        decided = access.notices.decisions
        if decided is not published or time.monotonic() - published_at >= PUBLISH_EVERY:
            try:
                publish_notices(dht, access.gate, identity, access.notices.current())
            except StorageError as error:  # others have them; a full disk ends neither bans nor signs of life
                logger.warning("%s", error)
            published, published_at = access.notices.decisions, time.monotonic()
