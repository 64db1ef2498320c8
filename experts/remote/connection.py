"""A caller's stream to one host: opened when it is needed, with any number of requests on their way."""

import asyncio
from dataclasses import dataclass

from hivemind.p2p import P2P, PeerID

from experts.codec import encoded_bytes
from experts.directory.records import Directory
from experts.host.settings import ExpertSettings, HostLimits
from experts.host.state import longest_state
from experts.remote import wire
from experts.remote.wire import HANDLE, Answer, Kind, Part, Request
from swarm.access.gate import Gate
from swarm.access.greeting import LONGEST_HELLO, REFUSALS, UNREACHED, Greeting, Hello
from swarm.identity import Identity
from swarm.tasks import within

FAILURES = (*UNREACHED, *REFUSALS)
OPENING = 15.0  # seconds until the host is reached and has said hello


class HostConnection:
    """Requests to one host. Everything is called in the event loop.

    The caller that waits sets the time limit, and closes the stream when it is over: an answer that nobody waits for
    does so, too.
    """

    def __init__(self, p2p: P2P, greeting: Greeting, settings: ExpertSettings, peer_id: PeerID):
        self.peer_id, self._p2p, self._greeting = peer_id, p2p, greeting
        rows = encoded_bytes(HostLimits().request_rows, settings.width)
        self._longest_payload = max(rows, longest_state(settings))
        self.requests = 0  # that were sent
        self._waiting: dict[int, asyncio.Future[tuple[Answer, bytes]]] = {}
        self._opening = asyncio.Lock()
        self._writer: asyncio.StreamWriter | None = None
        self._reading: asyncio.Task[None] | None = None

    async def ask(self, kind: Kind, parts: tuple[Part, ...] = (), payload: bytes = b"") -> tuple[Answer, bytes]:
        """The answer to a request. A stream that was closed while it was idle is opened again, once.

        A backward call is not repeated: the expert may have taken its step before the stream was closed.

        Raises:
            one of FAILURES: the host cannot be reached, is not of this run, or closed the stream.
        """
        is_new = self._writer is None
        try:
            return await self._ask(kind, parts, payload)
        except (ConnectionError, EOFError):
            if is_new or kind is Kind.BACKWARD:
                raise
            return await self._ask(kind, parts, payload)

    def close(self) -> None:
        """Close the stream; requests on their way fail."""
        if self._reading is not None:
            self._reading.cancel()
        self._drop(OSError("closed here"))  # which is no reason to open it again

    async def _ask(self, kind: Kind, parts: tuple[Part, ...], payload: bytes) -> tuple[Answer, bytes]:
        async with self._opening:
            writer = self._writer
            if writer is None:
                async with within(OPENING):
                    writer = await self._open()
        self.requests += 1
        number = self.requests
        answer: asyncio.Future[tuple[Answer, bytes]] = asyncio.get_running_loop().create_future()
        self._waiting[number] = answer
        try:
            writer.write(wire.message(Request(number, kind, parts), payload))
            return await answer
        finally:
            self._waiting.pop(number, None)

    async def _open(self) -> asyncio.StreamWriter:
        _, reader, writer = await self._p2p.call_binary_stream_handler(self.peer_id, HANDLE)
        try:
            writer.write(wire.message(self._greeting.hello()))
            hello, _ = await wire.read_message(reader, Hello, LONGEST_HELLO, 0, seconds=60.0)
            self._greeting.check(hello, self.peer_id)
        except BaseException:
            writer.transport.abort()
            raise
        self._writer = writer
        self._reading = asyncio.get_running_loop().create_task(self._read(reader, writer))
        return writer

    async def _read(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        error: Exception = EOFError("the host closed the stream")
        try:
            while True:
                answer, payload = await wire.read_message(
                    reader, Answer, wire.LONGEST_HEAD, self._longest_payload, seconds=60.0
                )
                asked = self._waiting.pop(answer.number, None)
                if asked is None:
                    raise ValueError(f"nobody waits for an answer {answer.number}")
                if not asked.done():
                    asked.set_result((answer, payload))
        except FAILURES as raised:
            error = raised
        finally:
            if self._writer is writer:
                self._drop(error)

    def _drop(self, error: Exception) -> None:
        if self._writer is not None:
            self._writer.transport.abort()
        self._writer = None
        for asked in self._waiting.values():
            if not asked.done():
                asked.set_exception(error)


@dataclass(frozen=True)
class Swarm:
    """What a host, or the coordinator, needs of the swarm to reach hosts.

    `run` is the run's fingerprint.
    """

    p2p: P2P
    identity: Identity
    gate: Gate
    run: str
    directory: Directory

    def connect(self, settings: ExpertSettings, peer_id: PeerID) -> HostConnection:
        """A connection to a host, or to the coordinator."""
        return HostConnection(self.p2p, wire.greeting(self.gate, self.run, settings), settings, peer_id)
