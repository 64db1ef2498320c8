"""What the organizer has decided: kept on the disk, signed as notices by the run's authority, and published."""

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from hivemind.dht import DHT
from pydantic import BaseModel, ConfigDict, field_serializer

from coordinator.state_folder import AUTHORITY, NOTICES, read_small
from swarm import clock
from swarm.access.gate import Gate
from swarm.access.notices import BestCheckpoint, Notices, sign_notices
from swarm.access.passes import Authority, load_authority
from swarm.access.user_names import COORDINATOR
from swarm.dht.notices_in_dht import publish_notices
from swarm.errors import StorageError, SwarmError
from swarm.files import write_file
from swarm.identity import Identity

logger = logging.getLogger(__name__)

TICK = 1e-6  # seconds between two notices, at least: peers keep the later one
MARK_EVERY = 60.0  # seconds between two writes of the time, in case the clock is set back before the next start
OWN_PASS = 365 * 86400.0  # seconds; the coordinator gives itself a new one at each start
PUBLISH_EVERY = 20.0  # seconds between two publications when nothing was decided: they show that the coordinator lives
POLL_EVERY = 1.0  # seconds; the longest time from a decision to its publication


class Decisions(BaseModel):
    """All decisions that hold now. `time` is that of the newest notices that the file knows of, in unix seconds."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    banned: frozenset[str]  # names as in passes, and peer ids
    on_probation: frozenset[str] = frozenset()  # names as in passes: see `coordinator.ledger.audits.probation`
    allowed: frozenset[str] = frozenset()  # Hub users who may join besides those of the run file
    announcement: str = ""
    paused: bool = False
    stopped: bool = False
    time: float = 0.0
    pass_time: float = 0.0  # unix seconds: the time by which passes expire, when this was written

    @field_serializer("banned", "on_probation", "allowed")
    def _in_order(self, names: frozenset[str]) -> list[str]:
        return sorted(names)


class NoticeStore:
    """The organizer's decisions, each on the disk before it takes effect. Threads may share a store."""

    def __init__(self, folder: Path, authority: Authority, run_name: str):
        """Read the decisions in the state folder, if there are any.

        Raises:
            SwarmError: the file there holds no decisions.
        """
        self._path = folder / NOTICES
        self._authority, self._run_name = authority, run_name
        self._lock = threading.Lock()
        otherwise = (
            "no decisions of an organizer that this Sahaj knows; upgrade it if a newer one wrote the file, restore the "
            "file, or remove it to forget all bans and announcements"
        )
        self._decided = read_small(self._path, Decisions, otherwise) or Decisions(banned=frozenset())
        self._last = self._decided.time
        self.url = ""  # of the HTTP service, once it is open
        self.coordinator = ""  # the coordinator's peer id
        self._best: BestCheckpoint | None = None  # since the coordinator's start
        self.pass_time = self._decided.pass_time  # unix seconds: the time by which passes expire

    @property
    def decisions(self) -> Decisions:
        """The decisions that hold now."""
        return self._decided

    def current(self) -> bytes:
        """Signed notices of this moment. Their times increase, also over a restart."""
        with self._lock:
            self._last = max(clock.now(), self._last + TICK)
            if self._last > self._decided.time + MARK_EVERY:
                self._decided = self._decided.model_copy(update={"time": self._last, "pass_time": self.pass_time})
                with contextlib.suppress(StorageError):  # a full disk must not silence the authority
                    write_file(self._path, self._decided.model_dump_json(indent=1) + "\n")
            return self._signed(self._decided)

    def ban(self, *names: str) -> None:
        """Ban users, by the names in their passes, or peers, by their ids."""
        self._decide(lambda now: {"banned": now.banned | set(names)})

    def unban(self, *names: str) -> None:
        """Take back bans, whatever the case of the names' letters."""

        def fewer(now: Decisions) -> dict[str, object]:
            return {"banned": now.banned.difference(*(spellings(name, now.banned) for name in names))}

        self._decide(fewer)

    def allow(self, name: str) -> None:
        """Let a Hub user join who is not in the run file. This lifts no ban."""
        self._decide(lambda now: {"allowed": now.allowed | {name}})

    def disallow(self, name: str) -> None:
        """Take back an `allow`. A pass that the user has stays valid until it expires."""
        self._decide(lambda now: {"allowed": now.allowed - spellings(name, now.allowed)})

    def announce(self, text: str) -> None:
        """Show this line to everybody; an empty one removes the last."""
        self._decide(lambda now: {"announcement": text})

    def pause(self) -> None:
        """Let no new peers join for now."""
        self._decide(lambda now: {"paused": True})

    def resume(self) -> None:
        """Take back a pause, or a stop."""
        self._decide(lambda now: {"paused": False, "stopped": False})

    def stop(self) -> None:
        """End the run: trainers leave."""
        self._decide(lambda now: {"stopped": True})

    def show_best(self, best: BestCheckpoint) -> None:
        """Let the next notices tell everybody of a checkpoint, if there is room; no decision, and not on the disk."""
        self._best = best

    def put_on_probation(self, users: frozenset[str]) -> None:
        """Have these users, and no others, be left out of means.

        Raises:
            SwarmError: the notices would be too long to publish.
            StorageError: the disk cannot be written; nothing has changed.
        """
        if users != self._decided.on_probation:
            self._decide(lambda now: {"on_probation": users})

    def _decide(self, changes: Callable[[Decisions], dict[str, object]]) -> None:
        """Write a decision to the disk, then let it take effect.

        Args:
            changes: takes the decisions in force, which no other thread changes meanwhile, and returns what is new.

        Raises:
            SwarmError: the notices would be too long to publish.
            StorageError: the disk cannot be written; nothing has changed.
        """
        with self._lock:
            self._last = max(clock.now(), self._last + TICK)
            times = {"time": self._last, "pass_time": self.pass_time}
            decided = self._decided.model_copy(update=changes(self._decided) | times)
            try:
                self._signed(decided)
            except ValueError as error:
                raise SwarmError(f"{self._path}: {error}; unban peers that are long gone") from None
            write_file(self._path, decided.model_dump_json(indent=1) + "\n")
            self._decided = decided

    def _signed(self, decided: Decisions) -> bytes:
        notices = Notices(
            time=self._last,
            banned=decided.banned,
            on_probation=decided.on_probation,
            announcement=decided.announcement,
            paused=decided.paused,
            stopped=decided.stopped,
            url=self.url,
            coordinator=self.coordinator,
            pass_time=self.pass_time,
            best=self._best,
        )
        try:
            return sign_notices(notices, self._authority, self._run_name)
        except ValueError:  # too long; decisions matter more than a checkpoint
            return sign_notices(replace(notices, best=None), self._authority, self._run_name)


def spellings(name: str, known: Iterable[str]) -> set[str]:
    """The spellings of a name in passes: peers compare names letter by letter, the Hub ignores case."""
    return {one for one in known if one.casefold() == name.casefold()}


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
