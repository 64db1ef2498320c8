"""The coordinator's side of access: it is the run's authority, and tells everybody what the organizer decides."""

import threading
import time
from dataclasses import dataclass
from pathlib import Path

from hivemind.dht import DHT

from coordinator.access.notice_store import NoticeBoard
from coordinator.state_folder import AUTHORITY
from swarm.access.gate import Gate
from swarm.access.notices_in_dht import publish_notices
from swarm.access.passes import COORDINATOR, Authority, load_authority
from swarm.identity import Identity

OWN_PASS = 365 * 86400.0  # seconds; the coordinator gives itself a new one at each start
TELL_EVERY = 20.0  # seconds between two signs of life when nothing was decided
LOOK_EVERY = 1.0  # seconds from a decision to its first way out


@dataclass(frozen=True)
class Guard:
    """What makes passes, what checks them, and what is told to everybody."""

    authority: Authority
    board: NoticeBoard
    gate: Gate


def post_guard(run_name: str, folder: Path, identity: Identity, lifetime: float) -> Guard:
    """The guard of a run whose coordinator keeps its things in `folder`; its passes last for `lifetime` seconds.

    Raises:
        SwarmError: the authority's key or the notice board there cannot be read.
    """
    authority = load_authority(folder / AUTHORITY)
    board = NoticeBoard(folder, authority, run_name)
    board.coordinator = str(identity.peer_id)
    own = authority.issue(run_name, COORDINATOR, identity.peer_id, OWN_PASS)
    gate = Gate(folder, run_name, authority.public_key, own, board.current(), lifetime)
    return Guard(authority, board, gate)


def keep_telling(guard: Guard, dht: DHT, identity: Identity, stop: threading.Event) -> None:
    """Publish the notices at once when something was decided, and now and then, until `stop` is set."""
    told, told_at = None, float("-inf")
    while not stop.wait(LOOK_EVERY):
        decided = guard.board.decisions
        if decided is not told or time.monotonic() - told_at >= TELL_EVERY:
            publish_notices(dht, guard.gate, identity, guard.board.current())
            told, told_at = guard.board.decisions, time.monotonic()
