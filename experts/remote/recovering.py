"""What a host asks the coordinator: whether it keeps a newer state of an expert, and where the run's schedule is.

It asks before it serves one, and now and then while it does, because a rollback of the run makes older states the
newest.
"""

import asyncio
from collections.abc import Callable, Mapping, Set
from enum import Enum

from hivemind.p2p import PeerID
from hivemind.utils import get_logger

from experts.grid import Uid
from experts.host.files import StateFiles
from experts.host.settings import ExpertSettings
from experts.host.state import from_bytes
from experts.host.worker import BUSY
from experts.remote.connection import FAILURES, HostConnection
from experts.remote.wire import Kind, Part
from experts.versions import steps_taken
from swarm.errors import StorageError
from swarm.language import _
from swarm.tasks import Tasks, within

logger = get_logger(__name__)

ANSWER = 10.0  # seconds until the coordinator counts as away


class Fetched(Enum):
    """What came of a question for a newer state."""

    TAKEN = "taken"  # it is our file now
    NOTHING = "nothing"  # there is none that can be used
    LATER = "later"  # it has to be asked for again


class Recovering:
    """Brings files up to what the coordinator keeps, in a task. Everything is called in the event loop.

    While the coordinator is away, an expert that has a file can be served from it. One that has none cannot: from the
    seed it would begin anew, although the coordinator may keep what it has learned.

    Args:
        connect: to the coordinator; the connection is closed here.
        coordinator: its peer id, as the organizer's notices name it; empty if they name none.
        state: seconds for one state to arrive.
        on_schedule: is told what learning rates are multiplied by now, each time that the coordinator answers.
    """

    def __init__(
        self,
        connect: Callable[[PeerID], HostConnection],
        coordinator: Callable[[], str],
        settings: ExpertSettings,
        files: StateFiles,
        state: float,
        on_schedule: Callable[[float], None],
    ):
        self._connect, self._coordinator, self._settings, self._files = connect, coordinator, settings, files
        self._state, self._on_schedule = state, on_schedule
        self._unasked = ""  # why the coordinator was not asked; empty if it was
        self.unsaved: dict[Uid, str] = {}  # why its states could not be written
        self._wanted: Set[Uid] = frozenset()  # experts that are to be served, as of the last call
        self._ready: set[Uid] = set()
        self._tasks = Tasks()
        self._task: asyncio.Task[None] | None = None  # of them, the newest

    @property
    def problem(self) -> str:
        """Why experts are not served; empty if nothing is in the way."""
        return self._unasked or next((told for uid, told in self.unsaved.items() if uid in self._wanted), "")

    async def prepare(self, uids: Set[Uid], patience: float) -> Set[Uid]:
        """Those of the experts that can be served now; others follow at a later call.

        Args:
            patience: seconds to wait for them at most.
        """
        self._ready &= uids
        self._wanted = uids
        if not uids or not self._coordinator():
            return uids
        if self._task is None or self._task.done():
            self._task = self._tasks.begin(self._prepare(uids))
        await asyncio.wait([self._task], timeout=patience)
        ready = self._ready & uids
        self._ready.clear()
        return ready

    async def newer(self, versions: Mapping[Uid, int]) -> Set[Uid]:
        """Those of the experts of which our file is now a state of the coordinator's that is newer than these versions.

        While the coordinator is away there are none.
        """
        found = set[Uid]()
        if self._coordinator():
            await self._ask(versions, {Fetched.TAKEN}, found)
        return found

    async def stop(self) -> None:
        """End the task."""
        await self._tasks.cancel()

    async def _prepare(self, uids: Set[Uid]) -> None:
        versions = self._files.versions
        since = {uid: versions.get(uid, 0) for uid in uids}
        if not await self._ask(since, {Fetched.TAKEN, Fetched.NOTHING}, self._ready):
            self._ready |= uids & self._files.versions.keys()

    async def _ask(self, versions: Mapping[Uid, int], sought: Set[Fetched], found: set[Uid]) -> bool:
        """Ask for states that are newer than these versions; whether the coordinator answered.

        Args:
            sought: what has to come of the question for an expert, to have it ...
            found: ... put in here.
        """
        coordinator = self._coordinator()
        connection = self._connect(PeerID.from_base58(coordinator))
        try:
            await self._greet(connection)
            for uid, version in sorted(versions.items()):
                try:
                    async with within(self._state):
                        came = await self._fetch(connection, uid, version)
                except StorageError as error:
                    logger.warning(str(error))
                    self.unsaved[uid] = str(error)
                    continue
                self.unsaved.pop(uid, None)
                if came in sought:
                    found.add(uid)
        except FAILURES as error:
            logger.info(f"the coordinator was not asked for states: {str(error) or type(error).__name__}")
            self._unasked = _(
                "the coordinator ({peer}) does not answer; experts without a saved state wait for it; is its port "
                "reachable from here?"
            ).format(peer=coordinator)
            return False
        finally:
            connection.close()
        self._unasked = ""
        return True

    async def _greet(self, connection: HostConnection) -> None:
        """See that the coordinator is there, and how far the run is."""
        async with within(ANSWER):
            answer, _ = await connection.ask(Kind.PING)
        if 0.0 <= answer.schedule_factor <= 1.0:
            self._on_schedule(answer.schedule_factor)

    async def _fetch(self, connection: HostConnection, uid: Uid, version: int) -> "Fetched":
        """Make our file the coordinator's state of an expert, if that is newer than a version.

        Raises:
            StorageError: it cannot be written.
            one of FAILURES: it did not come.
        """
        answer, state = await connection.ask(Kind.STATE, (Part(uid, version=version),))
        (result,) = answer.results
        if result.refused:
            return Fetched.LATER if result.refused == BUSY.refused else Fetched.NOTHING
        try:
            expert = await asyncio.to_thread(from_bytes, uid, self._settings, state)
            if await asyncio.to_thread(self._files.write, uid, expert.version, state):
                logger.info(f"expert {uid} begins with the coordinator's state of step {steps_taken(expert.version)}")
                return Fetched.TAKEN
        except ValueError as error:
            logger.warning(f"expert {uid}: the coordinator's state is not used: {error}")
        return Fetched.NOTHING
