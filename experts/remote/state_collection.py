"""States of all experts on the coordinator, which serves none: it collects them from hosts, and hands them out.

A host asks for them before it serves an expert (`experts/remote/recovering.py`).
"""

import asyncio
from collections.abc import Callable, Mapping, Set
from concurrent.futures import TimeoutError as SlowDHT
from functools import partial
from pathlib import Path

from hivemind.utils import get_logger

from experts.directory.assignment import servers
from experts.directory.records import Listed, NoAnswer
from experts.grid import Uid
from experts.host.computing import Computing
from experts.host.files import StateFiles
from experts.host.settings import ExpertSettings, HostLimits
from experts.host.worker import Worker
from experts.remote.connection import Swarm
from experts.remote.copying import Copying, CopyTimes
from experts.remote.service import ExpertService
from swarm.errors import StorageError, SwarmError
from swarm.tasks import end_tasks, within

logger = get_logger(__name__)

ONCE = 1e9  # seconds between two copies of an expert: in a collection there is one
LOOK_AGAIN = 5.0  # seconds until hosts that refused or were silent are asked again
TRIES = 3  # looks at a DHT in which nobody answers, before nothing is collected


class StateCollection:
    """Keeps states in a folder. Everything is called in the event loop.

    Args:
        schedule_factor: what experts' learning rates are multiplied by now. Hosts ask for it.
    """

    def __init__(self, swarm: Swarm, settings: ExpertSettings, folder: Path, schedule_factor: Callable[[], float]):
        self._swarm, self._settings = swarm, settings
        self.files = StateFiles(folder, settings)
        self._worker = Worker(Computing(settings), HostLimits())
        self._service = ExpertService(
            swarm.p2p, swarm.gate, swarm.run, settings, self._worker, self.files, schedule_factor
        )
        self._serving: Mapping[Uid, str] = {}  # by peer id, as of the last look
        self._working: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Read the files, and answer hosts from now on."""
        await asyncio.to_thread(self.files.load)
        self._working = asyncio.create_task(self._worker.run())
        await self._service.start()

    async def stop(self) -> None:
        """Answer nobody any longer."""
        await self._service.stop()
        if self._working is not None:
            await end_tasks([self._working])

    async def collect(self, patience: float) -> dict[Uid, str]:
        """Copy each state with more steps than ours, once, from the host that serves the expert.

        Args:
            patience: seconds for all of it.

        Returns:
            The experts of which no state came, with the peer that serves each.

        Raises:
            SwarmError: our own peer of the DHT does not answer.
            StorageError: a state cannot be written.
        """
        connect = partial(self._swarm.connect, self._settings)
        copying = Copying(connect, self._settings, self.files, CopyTimes(copy=ONCE, all_transfers=patience))
        try:
            async with within(patience):
                await self._collect(copying)
        except asyncio.TimeoutError:
            logger.info(f"states of experts did not come within {patience:.0f} s")
        finally:
            await copying.stop()
        if copying.problem:
            raise StorageError(copying.problem)
        return {uid: self._serving[uid] for uid in sorted(copying.wanted - copying.came)}

    async def _collect(self, copying: Copying) -> None:
        unanswered = 0
        while True:
            try:
                listed = await asyncio.to_thread(self._swarm.directory.read)
            except NoAnswer as error:
                logger.info(str(error))
                unanswered += 1
                if unanswered == TRIES:
                    return
                await asyncio.sleep(LOOK_AGAIN)
                continue
            except SlowDHT:
                raise SwarmError("the DHT did not answer, so no states of experts were collected") from None
            unanswered, self._serving = 0, servers([host.holdings for host in listed])
            # nothing comes of what is gone
            copying.wanted = (self._newer(listed) | copying.wanted) & self._serving.keys()
            copying.follow(listed, self._serving)
            await copying.wait()
            if copying.wanted <= copying.came:
                return
            await asyncio.sleep(LOOK_AGAIN)

    def _newer(self, listed: list[Listed]) -> Set[Uid]:
        ours = self.files.versions
        served = (host.holdings.serves for host in listed)
        return {uid for serves in served for uid, version in serves.items() if version > ours.get(uid, 0)}
