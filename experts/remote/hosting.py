"""A host in the swarm: it looks who has which experts, serves and copies its share, and keeps its record in the DHT."""

import asyncio
from collections.abc import Sequence
from concurrent.futures import TimeoutError as SlowDHT
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from hivemind.utils import get_logger

from experts.directory.assignment import Assignment, Holdings, assign, at_least, not_taken_over, safe_elsewhere, servers
from experts.directory.records import LIFETIME, Listed, NoAnswer
from experts.grid import Uid
from experts.host.computing import Computing
from experts.host.files import StateFiles
from experts.host.settings import ExpertSettings, HostLimits
from experts.host.state import to_bytes
from experts.host.trained_expert import TrainedExpert
from experts.host.worker import Worker
from experts.remote.connection import Swarm
from experts.remote.copying import Copying, CopyTimes
from experts.remote.following import pause_of_host
from experts.remote.recovering import Recovering
from experts.remote.service import ExpertService
from experts.versions import steps_taken
from swarm import clock
from swarm.errors import StorageError
from swarm.language import _
from swarm.tasks import end_tasks, within

logger = get_logger(__name__)

LOOKS = 2  # at the directory before experts are served or taken over: a single one may miss hosts


@dataclass(frozen=True)
class HostingTimes(CopyTimes):
    """In seconds. States are written as often as they are copied."""

    look: float = 5.0  # between two looks at the directory, at least
    tell: float = 10.0  # between two records of ours, if nothing changes; they live for three times as long
    handover: float = 30.0  # for standbys to take over what a host serves that leaves
    ask: float = 30.0  # between two questions to the coordinator, for newer states and for the schedule


@dataclass(frozen=True)
class Report:
    """What a host does, for people. Calls and rows are counted from its start."""

    holdings: Holdings
    answered: int  # calls
    refused: int  # calls, requests and streams
    rows: int
    served: int  # rows that were answered on the way back, of callers of other users
    problem: str  # why states cannot be written, or experts not be served; empty if they can


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
        connect = partial(swarm.connect, settings)
        self._copying = Copying(connect, settings, self._files, times)
        self._follow_schedule(0.0)  # experts stay as they are until the coordinator has told where the run is
        self._recovering = Recovering(
            connect,
            lambda: swarm.gate.notices.coordinator,
            settings,
            self._files,
            times.transfer,
            self._follow_schedule,
        )
        self._unsaved: dict[Uid, str] = {}  # why their states cannot be written
        self._saved_at: dict[Uid, float] = {}
        self._published_at = float("-inf")
        self._heard_at = self._began = 0.0  # of other hosts, through the DHT
        self._looks = 0
        self._working: asyncio.Task[None] | None = None
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def holdings(self) -> Holdings:
        """What we have now."""
        experts = dict(self.worker.computing.experts)  # the computing thread changes the other one
        serves = {uid: expert.version for uid, expert in experts.items()}
        had = self._copying.had - serves.keys()
        copies = {uid: version for uid, version in self._files.versions.items() if uid in had}
        return Holdings(self._peer, serves, copies)

    async def report(self) -> Report:
        """What we do now."""
        worker = self.worker
        refused = worker.refused + self._service.refused
        of_users = dict(worker.computing.served)  # the computing thread changes the other one
        of_users.pop(self._swarm.gate.own.user, None)
        served = sum(of_users.values())
        return Report(self.holdings, worker.answered, refused, worker.computing.rows, served, self._problem())

    def _problem(self) -> str:
        expired = clock.now() - LIFETIME
        if self._unsaved:
            return next(iter(self._unsaved.values()))
        if max(self._published_at, self._began) < expired:
            return _("the DHT does not take this host's record, so trainers do not find it; is the network up?")
        if self._heard_at < expired:
            return _("the DHT names no hosts, so this one serves no further experts; is the network up?")
        return self._copying.problem or self._recovering.problem

    async def start(self) -> None:
        """Read what we had, and begin."""
        await asyncio.to_thread(self._files.load)
        self._copying.had.update(self._files.versions)
        self._heard_at = self._began = clock.now()
        self._working = asyncio.create_task(self.worker.run())
        await self._service.start()
        await self._publish()  # before the first look, or it may find nothing
        tasks = (self._keep_telling(), self._keep_looking(), self._keep_saving(), self._keep_asking())
        self._tasks = [asyncio.create_task(one) for one in tasks]

    async def stop(self) -> list[Uid]:
        """Compute no more, write all states, wait until standbys have taken over, and leave.

        Returns:
            The experts whose newest state could not be written.
        """
        await end_tasks(self._tasks)
        await self._copying.stop()
        await self._recovering.stop()
        self._service.leaves = True
        await self.worker.finish(2 * self.worker.limits.longest_queue)
        lost = [uid for uid in list(self.worker.computing.experts) if not await self._save(uid)]
        try:
            async with within(self._times.handover):
                await self._hand_over()
        except Exception as error:  # leaving does not fail because nobody is there to take over
            logger.info(f"not all experts were handed over: {error!r}")
        await self._service.stop()
        try:
            await asyncio.to_thread(self._swarm.directory.store, self._swarm.identity, Holdings(self._peer), 0.0, 2.0)
        except Exception as error:
            logger.debug(f"the host's record was not withdrawn: {error!r}")
        if self._working is not None:
            await end_tasks([self._working])
        return lost

    async def _hand_over(self) -> None:
        """Say that we leave, and wait for the standbys, which fetch the last states and serve them."""
        directory, identity = self._swarm.directory, self._swarm.identity
        own = replace(self.holdings, leaves=True)
        others: list[Holdings] | None = None  # not known yet
        while own.serves:
            knew = others is not None
            try:
                await asyncio.to_thread(directory.store, identity, own, 0.0)
                listed = await asyncio.to_thread(directory.read)
                others = [one.holdings for one in listed if one.peer_id != identity.peer_id and not one.holdings.leaves]
            except (NoAnswer, SlowDHT) as error:  # standbys go on meanwhile
                logger.info(f"the experts' directory: {error!r}")
            if others == [] or (knew and others and not not_taken_over(own, others)):
                return
            await asyncio.sleep(self._times.look)  # in which they tell of their newest copies, too

    async def _keep_telling(self) -> None:
        """Keep our record up. This waits for no disk and no other host."""
        while True:
            if clock.now() >= self._published_at + self._times.tell:
                await self._publish()
            await asyncio.sleep(self._times.look)

    async def _keep_looking(self) -> None:
        while True:
            pause = 0.0
            try:
                pause = await self._look()
            except Exception as error:  # the DHT is slow, the disk full: the next look will tell
                logger.warning(f"the experts' directory: {error!r}")
            await asyncio.sleep(max(self._times.look, pause))

    async def _keep_saving(self) -> None:
        """Write states that are due. This waits for no other host."""
        while True:
            for uid in list(self.worker.computing.experts):
                if clock.now() >= self._saved_at.get(uid, float("-inf")) + self._times.copy:
                    await self._save(uid)
            await asyncio.sleep(self._times.look)

    async def _keep_asking(self) -> None:
        """Follow the run's schedule, and go on from a state of the coordinator's that is newer after a rollback."""
        while True:
            await asyncio.sleep(self._times.ask)
            try:
                for uid in sorted(await self._recovering.newer(self.holdings.serves)):
                    await self._replace(uid)
            except Exception:
                logger.exception("the coordinator was not asked for newer states of experts")

    def _follow_schedule(self, factor: float) -> None:
        self.worker.computing.schedule_factor = factor

    async def _replace(self, uid: Uid) -> None:
        """Serve the expert as its file has it, if that is newer."""
        newer = await asyncio.to_thread(self._files.read, uid)
        served = self.worker.computing.experts.get(uid)
        if newer is not None and served is not None and newer.version > served.version:
            await self.worker.between(self.worker.computing.experts.__setitem__, uid, newer)
            logger.info(f"expert {uid} goes back to step {steps_taken(newer.version)}, as the run does")

    async def _look(self) -> float:
        """Look who has which experts, and act; returns for how many seconds nothing more is to be done."""
        listed = await asyncio.to_thread(self._swarm.directory.read)
        # after long silence, as of a machine that slept, records have expired that the first answers may lack
        is_back = self._heard_at < clock.now() - LIFETIME
        self._heard_at, self._looks = clock.now(), 0 if is_back else self._looks + 1
        others = [host for host in listed if host.peer_id != self._swarm.identity.peer_id]
        has_all = self._looks >= LOOKS and await self._follow(others)
        self._heard_at = clock.now()  # a disk may take long
        return pause_of_host(others) if has_all else 0.0

    async def _follow(self, others: Sequence[Listed]) -> bool:
        """Have what we are to have, and tell the others; whether we serve all that we are to serve."""
        holdings = at_least([host.holdings for host in others], self._copying.seen(others))
        to_have = assign(self.holdings, holdings, self._settings.grid, self._capacity)
        before = self.holdings.serves.keys() | set()
        self._copying.wanted = to_have.copies
        await self._serve(to_have)
        if self.holdings.serves.keys() != before:
            await self._publish()
        self._copying.follow(others, servers(holdings))
        kept = self.holdings.serves.keys() | to_have.serves | to_have.copies
        of_users = zip((host.user for host in others), holdings, strict=True)
        for uid in safe_elsewhere(self._files.versions, of_users, self._swarm.gate.own.user) - kept:
            await asyncio.to_thread(self._files.remove, uid)
        return to_have.serves <= self.holdings.serves.keys()

    async def _serve(self, to_have: Assignment) -> None:
        experts = self.worker.computing.experts
        for uid in experts.keys() - to_have.serves:
            if not await self._save(uid):
                continue  # it stays in memory, where its steps are, until it can be written
            logger.info(f"expert {uid} is served by another host now")
            await self.worker.between(experts.pop, uid)
            self._copying.had.add(uid)
        for uid in sorted(await self._recovering.prepare(to_have.serves - experts.keys(), self._times.look)):
            had_file = uid in self._files.versions
            expert = await asyncio.to_thread(self._files.read, uid)
            if expert is None and had_file:
                continue  # it was removed or damaged since; at the next look the coordinator is asked for its state
            expert = expert or TrainedExpert(uid, self._settings)
            logger.info(f"serving expert {uid} from step {steps_taken(expert.version)}")
            await self.worker.between(experts.__setitem__, uid, expert)
            self._copying.had.discard(uid)
        # what we are to serve and do not yet, as we wait for the coordinator, stays a copy; others serve what we cannot
        self._copying.had &= to_have.copies | (to_have.serves - self._recovering.unsaved.keys())

    async def _publish(self) -> None:
        load, directory = self.worker.queue.load, self._swarm.directory
        try:
            stored = await asyncio.to_thread(directory.store, self._swarm.identity, self.holdings, load)
        except Exception as error:
            logger.warning(f"the host's record: {error!r}")
            return
        if stored:
            self._published_at = clock.now()
        else:
            logger.warning("the host's record could not be stored in the DHT")

    async def _save(self, uid: Uid) -> bool:
        """Write the state of an expert that we serve; whether its file is that state or a newer one."""
        expert = self.worker.computing.experts.get(uid)
        if expert is None:
            return False
        try:
            if self._files.versions.get(uid) != expert.version:
                state = await self.worker.between(lambda: (expert.version, to_bytes(expert)))
                await asyncio.to_thread(self._files.write, uid, *state)
        except Exception as error:  # the others are saved all the same
            logger.warning(f"expert {uid} is not saved", exc_info=error)
            told = _("expert {name} could not be saved ({error}); leave and start again")
            told = told.format(name=".".join(map(str, uid)), error=f"{error!r:.200}")
            self._unsaved[uid] = str(error) if isinstance(error, StorageError) else told
            return False
        self._unsaved.pop(uid, None)
        self._saved_at[uid] = clock.now()
        return True
