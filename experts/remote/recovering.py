"""What a host asks the coordinator before it serves an expert: whether it keeps a state with more steps."""

import asyncio
from collections.abc import Callable, Set

from hivemind.p2p import PeerID
from hivemind.utils import get_logger

from experts.grid import Uid
from experts.host.files import StateFiles
from experts.host.settings import ExpertSettings
from experts.host.state import from_bytes
from experts.host.worker import BUSY
from experts.remote.connection import FAILURES, HostConnection
from experts.remote.wire import Kind, Part
from swarm.errors import StorageError

logger = get_logger(__name__)

ANSWER = 10.0  # seconds until the coordinator counts as away


class Recovering:
    """Brings files up to what the coordinator keeps, in a task. Everything is called in the event loop.

    While the coordinator is away, an expert that has a file can be served from it. One that has none cannot: from the
    seed it would begin anew, although the coordinator may keep what it has learned.

    Args:
        connect: to the coordinator; the connection is closed here.
        coordinator: its peer id, as the organizer's notices name it; empty if they name none.
        state: seconds for one state to arrive.
    """

    def __init__(
        self,
        connect: Callable[[PeerID], HostConnection],
        coordinator: Callable[[], str],
        settings: ExpertSettings,
        files: StateFiles,
        state: float,
    ):
        self._connect, self._coordinator, self._settings, self._files = connect, coordinator, settings, files
        self._state = state
        self._ready: set[Uid] = set()
        self._task: asyncio.Task[None] | None = None

    async def prepare(self, uids: Set[Uid], patience: float) -> Set[Uid]:
        """Those of the experts that can be served now; others follow at a later call.

        Args:
            patience: seconds to wait for them at most.
        """
        self._ready &= uids
        coordinator = self._coordinator()
        if not uids or not coordinator:
            return uids
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._ask(PeerID.from_base58(coordinator), uids))
        await asyncio.wait([self._task], timeout=patience)
        ready, self._ready = self._ready & uids, set()
        return ready

    async def stop(self) -> None:
        """End the task."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _ask(self, coordinator: PeerID, uids: Set[Uid]) -> None:
        connection = self._connect(coordinator)
        try:
            await asyncio.wait_for(connection.ask(Kind.PING), ANSWER)
            for uid in sorted(uids):
                if await asyncio.wait_for(self._is_newest(connection, uid), self._state):
                    self._ready.add(uid)
        except FAILURES as error:
            logger.info(f"the coordinator was not asked for states: {str(error) or type(error).__name__}")
            self._ready |= uids & self._files.versions.keys()
        except Exception:
            logger.exception("the coordinator was not asked for states")
        finally:
            connection.close()

    async def _is_newest(self, connection: HostConnection, uid: Uid) -> bool:
        """Whether our file, or no file, is the newest state of an expert, after the coordinator's was taken over."""
        part = Part(uid, version=self._files.versions.get(uid, 0))
        answer, state = await connection.ask(Kind.STATE, (part,))
        (result,) = answer.results
        if result.refused:
            return result.refused != BUSY.refused
        try:
            expert = await asyncio.to_thread(from_bytes, uid, self._settings, state)
            await asyncio.to_thread(self._files.write, uid, expert.version, state)
            logger.info(f"expert {uid} begins with the coordinator's state of step {expert.version}")
        except StorageError as error:
            logger.warning(str(error))
            return False
        except ValueError as error:
            logger.warning(f"expert {uid}: the coordinator's state is not used: {error}")
        return True
