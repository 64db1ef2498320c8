"""A host in the swarm: it looks who has which experts, serves and copies its share, and keeps its record in the DHT."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from hivemind.p2p import P2P
from hivemind.utils import get_logger

from experts.directory.assignment import Assignment, Holdings, assign, at_least, servers
from experts.directory.records import Directory, Listed
from experts.grid import Uid
from experts.host.computing import Computing
from experts.host.files import StateFiles
from experts.host.settings import ExpertSettings, HostLimits
from experts.host.state import from_bytes, to_bytes
from experts.host.trained_expert import TrainedExpert
from experts.host.worker import Worker
from experts.remote.connection import FAILURES, HostConnection
from experts.remote.greeting import Greeting
from experts.remote.service import ExpertService
from experts.remote.wire import Kind, Part, split
from swarm import clock
from swarm.access.gate import Gate
from swarm.errors import StorageError
from swarm.identity import Identity

logger = get_logger(__name__)


@dataclass(frozen=True)
class HostingTimes:
    """In seconds."""

    look: float = 5.0  # between two looks at the directory
    tell: float = 10.0  # between two records of ours, if nothing changes; they live for three times as long
    copy: float = 120.0  # between two copies of an expert, and between two files of one that is served
    transfer: float = 60.0  # for a state to arrive


@dataclass(frozen=True)
class Swarm:
    """What a host needs of the swarm that it has joined.

    `run` is the run's fingerprint.
    """

    p2p: P2P
    identity: Identity
    gate: Gate
    run: str
    directory: Directory


class Hosting:
    """Serves and copies up to `capacity` experts. Everything is called in the event loop."""

    def __init__(
        self,
        swarm: Swarm,
        settings: ExpertSettings,
        capacity: int,
        folder: Path,
        limits: HostLimits = HostLimits(),  # noqa: B008  (it is frozen)
        times: HostingTimes = HostingTimes(),
    ):
        self._swarm, self._settings, self._capacity, self._times = swarm, settings, capacity, times
        self._files = StateFiles(folder, settings)
        self.worker = Worker(Computing(settings), limits)
        self._service = ExpertService(swarm.p2p, swarm.gate, swarm.run, settings, self.worker)
        self._peer = swarm.identity.peer_id.to_base58()
        self._copies: dict[Uid, int] = {}  # versions of files of experts that are not served
        self._kept_at: dict[Uid, float] = {}  # when an expert's file was written
        self._seen: dict[tuple[str, Uid], int] = {}  # versions copied from others
        self._told_at = float("-inf")
        self._storing: asyncio.Task[None] | None = None
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def holdings(self) -> Holdings:
        """What we have now."""
        serves = {uid: expert.version for uid, expert in self.worker.computing.experts.items()}
        return Holdings(self._peer, serves, dict(self._copies))

    async def start(self) -> None:
        """Read what we had, and begin."""
        self._copies = await asyncio.to_thread(self._files.versions)
        self._tasks = [asyncio.create_task(self.worker.run())]
        await self._service.start()
        self._tasks.append(asyncio.create_task(self._keep()))

    async def stop(self) -> None:
        """Write all states and leave: others take over at once."""
        await _end([*self._tasks[1:], *([self._storing] if self._storing else [])])
        await self._service.stop()
        await self._save(list(self.worker.computing.experts))
        try:
            await asyncio.to_thread(self._swarm.directory.store, self._swarm.identity, Holdings(self._peer), 0.0, 2.0)
        except Exception as error:  # leaving does not fail because nobody is there to hear it
            logger.debug(f"the host's record was not withdrawn: {error!r}")
        await _end(self._tasks[:1])

    async def _keep(self) -> None:
        while True:
            try:
                listed = await asyncio.to_thread(self._swarm.directory.read)
                await self._follow([host for host in listed if host.peer_id != self._swarm.identity.peer_id])
            except Exception as error:  # the DHT is slow, the disk full: the next look will tell
                logger.warning(f"the experts' directory: {error!r}")
            await asyncio.sleep(self._times.look)

    async def _follow(self, others: Sequence[Listed]) -> None:
        """Have what we are to have, and tell the others."""
        holdings = at_least([host.holdings for host in others], self._seen)
        to_have = assign(self.holdings, holdings, self._settings.grid, self._capacity)
        before = self.holdings.serves.keys() | set()
        await self._serve(to_have)
        if self.holdings.serves.keys() != before or clock.now() >= self._told_at + self._times.tell:
            await self._tell()
        if self._storing is None or self._storing.done():  # it may take longer than our record lives
            self._storing = asyncio.create_task(self._store(others, servers(holdings), to_have))

    async def _serve(self, to_have: Assignment) -> None:
        experts = self.worker.computing.experts
        for uid in experts.keys() - to_have.serves:
            logger.info(f"expert {uid} is served by another host now")
            await self._save([uid])
            self._copies[uid] = experts[uid].version
            await self.worker.between(experts.pop, uid)
        for uid in sorted(to_have.serves - experts.keys()):
            expert = await asyncio.to_thread(self._files.read, uid) or TrainedExpert(uid, self._settings)
            logger.info(f"serving expert {uid} from step {expert.version}")
            await self.worker.between(experts.__setitem__, uid, expert)
            self._copies.pop(uid, None)
        for uid in self._copies.keys() - to_have.copies:
            del self._copies[uid]  # its file stays: it may be the last one

    async def _store(self, others: Sequence[Listed], serving: Mapping[Uid, str], to_have: Assignment) -> None:
        """Write what is due: states of ours, and copies of those of others."""
        try:
            await self._save([uid for uid in self.worker.computing.experts if self._is_due(uid)])
            for host in others:
                of_it = [uid for uid in to_have.copies if serving.get(uid) == host.holdings.peer and self._is_due(uid)]
                if of_it:
                    await self._copy(host, of_it)
        except Exception:
            logger.exception("states of experts could not be stored")

    async def _tell(self) -> None:
        load = self.worker.queue.load
        if await asyncio.to_thread(self._swarm.directory.store, self._swarm.identity, self.holdings, load):
            self._told_at = clock.now()

    def _is_due(self, uid: Uid) -> bool:
        return clock.now() >= self._kept_at.get(uid, float("-inf")) + self._times.copy

    async def _save(self, uids: Sequence[Uid]) -> None:
        for uid in uids:
            expert = self.worker.computing.experts.get(uid)
            if expert is not None:
                await self._write(uid, await self.worker.between(to_bytes, expert))

    async def _write(self, uid: Uid, state: bytes) -> bool:
        try:
            await asyncio.to_thread(self._files.write, uid, state)
        except StorageError as error:
            logger.warning(str(error))
            return False
        self._kept_at[uid] = clock.now()
        return True

    async def _copy(self, host: Listed, uids: Sequence[Uid]) -> None:
        """Copy experts from the host that serves them; those that cannot be had are tried again at the next look."""
        swarm = self._swarm
        greeting = Greeting(swarm.gate, swarm.run, self._settings)
        connection = HostConnection(swarm.p2p, greeting, self._settings, host.peer_id)
        try:
            for uid in uids:
                parts = (Part(uid),)
                answer, payload = await asyncio.wait_for(connection.ask(Kind.STATE, parts), self._times.transfer)
                answered = split(answer, payload, parts)
                if uid not in answered:
                    continue
                expert = await asyncio.to_thread(from_bytes, uid, self._settings, payload)
                if await self._write(uid, payload):
                    self._copies[uid] = self._seen[host.holdings.peer, uid] = expert.version
        except FAILURES as error:
            logger.info(f"experts could not be copied from {host.peer_id}: {str(error) or type(error).__name__}")
        finally:
            connection.close()


async def _end(tasks: Sequence["asyncio.Task[None]"]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
