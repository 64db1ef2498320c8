"""The libp2p service of a host: streams of callers, each checked when it begins and at each request.

hivemind's raw streams are used, not its calls: those read megabytes before anybody knows who sends them. A stream is
read only while few of its requests wait, so a caller that sends more waits for itself.
"""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any

from hivemind.p2p import P2P, PeerID
from hivemind.utils import get_logger

from experts.codec import encoded_bytes
from experts.grid import Uid
from experts.host.call_queue import Call
from experts.host.computing import Outcome
from experts.host.files import StateFiles
from experts.host.settings import ExpertSettings
from experts.host.state import to_bytes
from experts.host.worker import BUSY, Worker
from experts.remote import wire
from experts.remote.wire import HANDLE, Answer, Kind, Request, Result, greeting
from swarm.access.gate import Gate
from swarm.access.greeting import LONGEST_HELLO, REFUSALS, UNREACHED, Hello, HelloRefused, Strangers
from swarm.access.refusals import NoRoom, count_refusal
from swarm.rate_limit import RateLimit
from swarm.tasks import Tasks, end_tasks, within

logger = get_logger(__name__)

NOT_HERE, NOTHING_NEWER, LEAVING = (Outcome(refused=why) for why in ("not here", "nothing newer", "leaving"))


class ExpertService:
    """Answers callers. Everything is called in the event loop.

    Args:
        gate: checks passes and has ours.
        run: fingerprint of the run.
        kept: states that are handed out, but not served.
        schedule_factor: what experts' learning rates are multiplied by now; a coordinator knows it.
    """

    def __init__(
        self,
        p2p: P2P,
        gate: Gate,
        run: str,
        settings: ExpertSettings,
        worker: Worker,
        kept: StateFiles | None = None,
        schedule_factor: Callable[[], float] = lambda: 1.0,
    ):
        self._p2p, self._worker, self._limits, self._kept = p2p, worker, worker.limits, kept
        self._settings, self._greeting = settings, greeting(gate, run, settings)
        self._schedule_factor = schedule_factor
        self._longest_payload = 2 * encoded_bytes(self._limits.request_rows, settings.width)
        self._streams: set[asyncio.Task[Any]] = set()
        self._users: Counter[str] = Counter()  # streams of each
        self._states = RateLimit(self._limits.states_a_minute, 60.0)
        self._receiving = asyncio.Semaphore(self._limits.receiving)
        self._strangers = Strangers(self._limits.strangers, self._limits.strangers_of_a_peer)
        self.refused = 0  # streams and requests
        self.leaves = False  # no calls are computed any longer; states are handed out

    async def start(self) -> None:
        """Listen."""
        await self._p2p.add_binary_stream_handler(HANDLE, self._accept)

    async def stop(self) -> None:
        """Close all streams."""
        with contextlib.suppress(*UNREACHED, KeyError):
            async with within(self._limits.hello):
                await self._p2p.remove_binary_stream_handler(HANDLE)
        await end_tasks(list(self._streams))

    async def _accept(self, info: Any, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._streams.add(task)
        try:
            hello, user = await self._welcomed(info.peer_id, reader)
            try:
                writer.write(wire.message(self._greeting.hello()))
                await self._serve(info.peer_id, hello, user, reader, writer)
            finally:
                self._users -= Counter([user])
        except NoRoom as error:
            self.refused += 1
            logger.debug(f"no room for {info.peer_id}: {error}")
        except REFUSALS as error:
            self.refused += 1
            count_refusal(info.peer_id)
            logger.debug(f"refused {info.peer_id}: {str(error) or type(error).__name__}")
        except UNREACHED as error:
            logger.debug(f"the stream of {info.peer_id} ended: {error!r}")
        except asyncio.CancelledError:  # by `stop`; asyncio logs a handler that ends in this way as an error
            logger.debug(f"closed the stream of {info.peer_id}")
        finally:
            self._streams.discard(task)
            writer.transport.abort()

    async def _welcomed(self, peer_id: PeerID, reader: asyncio.StreamReader) -> tuple[Hello, str]:
        limits = self._limits
        if self._users.total() >= limits.streams:
            raise NoRoom("too many streams")
        try:
            with self._strangers.one(peer_id):
                async with within(limits.hello):
                    hello, _ = await wire.read_message(reader, Hello, LONGEST_HELLO, 0, limits.hello)
        except asyncio.TimeoutError:
            raise HelloRefused("no hello came") from None
        user = self._greeting.check(hello, peer_id)
        if self._users[user] >= limits.streams_of_a_user:
            raise ValueError(f"more than {limits.streams_of_a_user} streams of {user}")
        self._users[user] += 1
        return hello, user

    async def _serve(
        self, peer_id: PeerID, hello: Hello, user: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        limits = self._limits
        room, tasks = asyncio.Semaphore(limits.requests), Tasks()
        try:
            while True:
                await room.acquire()
                try:
                    request, payload = await wire.read_message(
                        reader, Request, wire.LONGEST_HEAD, self._longest_payload, limits.arrive, self._receiving
                    )
                except asyncio.TimeoutError:  # it has taken a place that others needed
                    raise ValueError("a request that began did not arrive") from None
                self._greeting.check(hello, peer_id)
                if request.kind in (Kind.FORWARD, Kind.BACKWARD):
                    calls = wire.calls_of(request, payload, user, self._settings, limits)
                    answering = self._computed(request, calls)
                else:
                    wire.check_parts(request.parts)
                    answering = self._looked_up(request, user)
                tasks.begin(self._write(answering, writer, room))
        finally:
            await tasks.cancel()

    async def _write(
        self,
        answering: Coroutine[Any, Any, tuple[Answer, list[bytes]]],
        writer: asyncio.StreamWriter,
        room: asyncio.Semaphore,
    ) -> None:
        """Write an answer when it is there; then there is room for another request."""
        try:
            answer, payload = await answering
            writer.write(wire.message(answer, *payload))
            async with within(self._limits.stall):
                await writer.drain()
        except UNREACHED as error:
            logger.debug(f"an answer was not taken: {error!r}")
            writer.transport.abort()
        finally:
            room.release()

    async def _computed(self, request: Request, calls: list[Call]) -> tuple[Answer, list[bytes]]:
        if self.leaves:
            return self._answer(request, [LEAVING] * len(calls))
        outcomes = await self._worker.answers(calls)
        if BUSY in outcomes:
            await asyncio.sleep(self._limits.busy_pause)
        return self._answer(request, outcomes)

    async def _looked_up(self, request: Request, user: str) -> tuple[Answer, list[bytes]]:
        if request.kind is Kind.PING:
            await self._worker.between(lambda: None)  # the host is alive if it computes
            return Answer(request.number, schedule_factor=self._schedule_factor()), []
        if len(request.parts) != 1:
            return Answer(request.number), []
        (part,) = request.parts
        version = self._version(part.uid)
        if version is None or 0 < version <= part.version:
            return self._answer(request, [NOT_HERE if version is None else NOTHING_NEWER])
        if not self.leaves and self._states.attempt(user) is not None:
            return self._answer(request, [BUSY])
        return self._answer(request, [await self._worker.between(self._state, part.uid)])

    def _version(self, uid: Uid) -> int | None:
        expert = self._worker.computing.experts.get(uid)
        if expert is not None:
            return expert.version
        return self._kept.versions.get(uid) if self._kept else None

    def _state(self, uid: Uid) -> Outcome:
        """In the computing thread."""
        expert = self._worker.computing.experts.get(uid)
        if expert is None and self._kept:
            expert = self._kept.read(uid)
        return Outcome(to_bytes(expert), expert.version) if expert else NOT_HERE

    @staticmethod
    def _answer(request: Request, outcomes: list[Outcome]) -> tuple[Answer, list[bytes]]:
        results = tuple(
            Result(part.uid, outcome.version, len(outcome.data), outcome.refused[: wire.LONGEST_REASON])
            for part, outcome in zip(request.parts, outcomes, strict=True)
        )
        return Answer(request.number, results), [outcome.data for outcome in outcomes]
