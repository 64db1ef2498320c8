"""Copies of other hosts' experts: what their standby fetches, and keeps as files."""

import asyncio
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass

from hivemind.p2p import PeerID
from hivemind.utils import get_logger

from experts.directory.records import LIFETIME, Listed
from experts.grid import Uid
from experts.host.files import StateFiles
from experts.host.settings import ExpertSettings
from experts.host.state import from_bytes
from experts.remote.connection import FAILURES, HostConnection
from experts.remote.service import NOTHING_NEWER
from experts.remote.wire import Kind, Part, split
from experts.versions import rollbacks
from swarm import clock
from swarm.errors import StorageError
from swarm.tasks import end_tasks, within

logger = get_logger(__name__)

MOST_ROLLBACKS = 1000  # that a peer may have missed; a version near the largest leaves no room for another one


@dataclass(frozen=True)
class CopyTimes:
    """In seconds."""

    copy: float = 120.0  # between two copies of an expert
    transfer: float = 60.0  # for one state to arrive
    all_transfers: float = 600.0  # for all states that one host is asked for


class Copying:
    """Copies experts into files, with a task for each host. Everything is called in the event loop.

    Args:
        connect: to a host; the connection is closed here.
    """

    def __init__(
        self, connect: Callable[[PeerID], HostConnection], settings: ExpertSettings, files: StateFiles, times: CopyTimes
    ):
        self._connect, self._settings, self._files, self._times = connect, settings, files, times
        self.wanted: Set[Uid] = frozenset()  # what is fetched for another expert is thrown away
        self.had: set[Uid] = set()  # experts whose file is a copy
        self._unsaved: dict[Uid, str] = {}  # why their states could not be written
        self._tried_at: dict[Uid, float] = {}  # when a state came, whether it was of use or not
        self._seen: dict[tuple[str, Uid], tuple[int, float]] = {}  # versions that peers had, and when
        self._tasks: dict[PeerID, asyncio.Task[None]] = {}

    def seen(self, hosts: Sequence[Listed]) -> dict[tuple[str, Uid], int]:
        """What is newer than the hosts' records: versions that we have fetched since they stored them."""
        newest = {host.holdings.peer: host.expires - LIFETIME - clock.SLACK for host in hosts}
        self._seen = {key: one for key, one in self._seen.items() if newest.get(key[0], one[1]) < one[1]}
        return {key: version for key, (version, _) in self._seen.items()}

    def follow(self, hosts: Sequence[Listed], serving: Mapping[Uid, str]) -> None:
        """Fetch what is due of what is wanted, from hosts of which nothing is being fetched, the oldest copy first.

        From a host that leaves, all that has more steps than our copy is due.
        """
        self._tasks = {peer_id: task for peer_id, task in self._tasks.items() if not task.done()}
        due = [uid for uid in sorted(self.wanted, key=self._last) if clock.now() >= self._last(uid) + self._times.copy]
        for host in hosts:
            of_it = [uid for uid in due if serving.get(uid) == host.holdings.peer]
            if host.holdings.leaves:
                ours, last = self._files.versions, host.holdings.serves
                of_it = [uid for uid in sorted(self.wanted & last.keys()) if ours.get(uid, -1) < last[uid]]
            if of_it and host.peer_id not in self._tasks:
                self._tasks[host.peer_id] = asyncio.create_task(self._fetch(host.peer_id, of_it))

    @property
    def came(self) -> Set[Uid]:
        """Experts whose state came, whether it was of use or not."""
        return self._tried_at.keys()

    @property
    def problem(self) -> str:
        """Why a copy cannot be written; empty if all can."""
        return next((told for uid, told in self._unsaved.items() if uid in self.wanted), "")

    async def wait(self) -> None:
        """Until nothing is on its way."""
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    async def stop(self) -> None:
        """End all tasks."""
        await end_tasks(list(self._tasks.values()))

    def _last(self, uid: Uid) -> float:
        return self._tried_at.get(uid, float("-inf"))

    async def _fetch(self, peer_id: PeerID, uids: Sequence[Uid]) -> None:
        """Copy experts from one host; those that do not come are tried again at the next look."""
        connection = self._connect(peer_id)
        try:
            async with within(self._times.all_transfers):
                await self._fetch_all(connection, peer_id, uids)
        except FAILURES as error:
            logger.info(f"experts could not be copied from {peer_id}: {str(error) or type(error).__name__}")
        except Exception:
            logger.exception(f"experts could not be copied from {peer_id}")
        finally:
            connection.close()

    async def _fetch_all(self, connection: HostConnection, peer_id: PeerID, uids: Sequence[Uid]) -> None:
        for uid in uids:
            parts = (Part(uid, version=self._files.versions.get(uid, 0)),)
            async with within(self._times.transfer):
                answer, payload = await connection.ask(Kind.STATE, parts)
            _, state = split(answer, payload, parts).get(uid, (None, b""))
            if state or answer.results[0].refused == NOTHING_NEWER.refused:  # otherwise it is asked for again
                self._tried_at[uid] = clock.now()
                await self._take(peer_id, uid, state)

    async def _take(self, peer_id: PeerID, uid: Uid, state: bytes) -> None:
        """Keep a state; an empty one if our file is as new."""
        try:
            if state:
                await self._write(peer_id, uid, state)
            self._unsaved.pop(uid, None)
        except (ValueError, StorageError) as error:
            logger.warning(f"expert {uid} of {peer_id} is not copied: {error}")
            if isinstance(error, StorageError):
                self._unsaved[uid] = str(error)
                self.had.discard(uid)  # while we tell of an old one, no other host makes a copy
                return
        if uid in self.wanted and uid in self._files.versions:
            self.had.add(uid)

    async def _write(self, peer_id: PeerID, uid: Uid, state: bytes) -> None:
        expert = await asyncio.to_thread(from_bytes, uid, self._settings, state)
        if rollbacks(expert.version) > rollbacks(self._files.versions.get(uid, 0)) + MOST_ROLLBACKS:
            raise ValueError(f"version {expert.version} is more rollbacks ahead than a run can be")
        self._seen[peer_id.to_base58(), uid] = expert.version, clock.now()
        if uid in self.wanted:
            await asyncio.to_thread(self._files.write, uid, expert.version, state)
