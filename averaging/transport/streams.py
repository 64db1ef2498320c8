"""Streams to all peers that there is something to tell: opened, reused, checked and closed.

Each pair of peers has two lanes with streams of their own, so that votes do not wait behind pieces. A stream serves
both directions, whichever side opened it, and libp2p opens streams over any connection that there is: a peer that
accepts no connections is reached over its own. hivemind's raw streams are used, not its calls: those read up to six
messages of 8 MiB before anybody knows who sends them.

A session is called `<peer id>.<8 hex digits>`. libp2p vouches for the peer id at the other end, so no peer speaks for a
session of another; both sides show their passes too.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable
from functools import partial

from hivemind.p2p import P2P, PeerID
from hivemind.p2p.p2p_daemon_bindings.datastructures import StreamInfo
from hivemind.utils import get_logger

from averaging.bandwidth import OwnLine
from averaging.log.packing import pack
from averaging.protocol.messages import Message
from averaging.transport.limits import OTHER_FILES, Budget, Limits, allow_open_files
from averaging.transport.remote import Remote
from averaging.transport.stream import Payload, Stream
from averaging.transport.wire_format import (
    BULKY,
    VERSION,
    FrameKind,
    FrameRefused,
    Lane,
    frame,
    is_session_of,
    read_hello,
    read_hello_body,
)
from swarm.access.gate import Gate
from swarm.access.greeting import REFUSALS, UNREACHED, Greeting, Hello, Strangers
from swarm.access.refusals import NoRoom, count_refusal, is_blocked
from swarm.dht.multiaddrs import printed
from swarm.tasks import Tasks, within

logger = get_logger(__name__)

HANDLES = {lane: f"sahaj.{lane.value}" for lane in Lane}
LASTING = 5.0  # seconds; a stream that does not last for as long was no success

Deliver = Callable[[str, Message, bytes | None], None]  # session, message, payload


class Transport:
    """The streams of one session. Everything is called in the event loop.

    Args:
        gate: checks passes and has ours.
        run: fingerprint of the run; peers of others are refused.
        session: ours.
        deliver: takes in what others send.
        line: of this peer, by default one without caps.
    """

    def __init__(
        self,
        p2p: P2P,
        gate: Gate,
        run: str,
        session: str,
        deliver: Deliver,
        limits: Limits = Limits(),  # noqa: B008  (it is frozen)
        line: OwnLine | None = None,
    ):
        self._p2p, self._gate, self._deliver, self._limits = p2p, gate, deliver, limits
        self._line = line or OwnLine()
        self._greeting = Greeting(gate, VERSION, run, session)
        self._remotes: dict[str, Remote] = {}  # by session
        self._strangers = Strangers(limits.strangers, limits.streams_of_a_peer)
        self._budget = Budget(limits.receiving, limits.receiving_from_a_peer)
        self._tasks = Tasks()

    async def start(self) -> None:
        """Listen."""
        allow_open_files(self._limits.streams + OTHER_FILES)
        for lane, handle in HANDLES.items():
            await self._p2p.add_binary_stream_handler(handle, partial(self._accept, lane))
        self._tasks.begin(self._tend())

    async def stop(self) -> None:
        """Close all streams; what has not been sent is dropped, so `flush` first. Another session may follow."""
        for handle in HANDLES.values():
            with contextlib.suppress(*UNREACHED, KeyError):
                async with within(self._limits.hello):
                    await self._p2p.remove_binary_stream_handler(handle)
        await self._tasks.cancel()
        self._remotes.clear()

    def send(self, to: str, message: Message, payload: Payload = None) -> None:
        """Send a message some time soon, or never; returns at once.

        `payload` is called when the message's turn has come, in the event loop: it makes the bytes, or returns None if
        they are not needed any more.
        """
        lane = Lane.BULK if isinstance(message, BULKY) else Lane.CONTROL
        try:
            remote = self._remote(to)
        except ValueError:
            return
        if remote.outboxes[lane].put(pack(message), payload):
            self._reach(remote, lane)

    async def flush(self, seconds: float) -> bool:
        """Wait until those that have streams have taken in what was sent to them; False if they have not in time."""
        with contextlib.suppress(asyncio.TimeoutError):
            async with within(seconds):
                await asyncio.gather(*(one.flushed() for one in self._remotes.values()))
            return True
        return False

    @property
    def received(self) -> dict[str, int]:
        """Bytes of bulk that have come over the streams that there are, unfinished messages included, by session."""
        return {session: remote.received_bytes for session, remote in self._remotes.items() if remote.streams}

    @property
    def seen(self) -> dict[str, str]:
        """At which address (a multiaddr) others see this peer, by session."""
        return {session: remote.sees_us_at for session, remote in self._remotes.items() if remote.sees_us_at}

    def _remote(self, session: str) -> Remote:
        if session not in self._remotes:
            self._remotes[session] = Remote(session, self._limits)
        return self._remotes[session]

    def _hello(self, info: StreamInfo | None = None) -> bytes:
        """Ours. The first one on a stream tells the other side at which address we see it: its router may change it."""
        seen = printed([info.addr]) if info is not None else []
        return frame(FrameKind.HELLO, pack(self._greeting.hello(*seen)))

    def _greeted(self, hello: Hello, peer_id: PeerID) -> Remote:
        """The session that said hello; others of its peer are over.

        Raises:
            one of REFUSALS: this is no session of that peer in this run.
        """
        self._greeting.check(hello, peer_id)
        if not is_session_of(hello.session, peer_id.to_base58()):
            raise FrameRefused(f"session {hello.session!r:.80} is not its own")
        for other in list(self._remotes.values()):
            if other.peer_id == peer_id and other.session != hello.session:
                self._forget(other)
        remote = self._remote(hello.session)
        remote.shown, remote.sees_us_at = hello.shown, hello.seen or remote.sees_us_at
        return remote

    # -- streams that others open

    async def _accept(
        self, lane: Lane, info: StreamInfo, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.keep(task)
        try:
            remote = await self._welcomed(info.peer_id, reader)
            writer.write(self._hello(info))
            await self._serve(remote, lane, reader, writer)
        except NoRoom as error:
            logger.debug(f"no room for {info.peer_id}: {error}")
        except (*UNREACHED, *REFUSALS) as error:
            self._refuse(info.peer_id, error)
        finally:
            writer.transport.abort()

    async def _welcomed(self, peer_id: PeerID, reader: asyncio.StreamReader) -> Remote:
        if sum(len(one.streams) for one in self._remotes.values()) >= self._limits.streams:
            raise NoRoom("too many streams")
        with self._strangers.one(peer_id):
            hello = await read_hello(reader, self._limits.hello)
        remote = self._greeted(hello, peer_id)
        if len(remote.streams) >= self._limits.streams_of_a_peer:
            raise FrameRefused(f"too many streams: {len(remote.streams)} of it")
        return remote

    def _refuse(self, peer_id: PeerID, error: Exception) -> None:
        """Count it; a peer that is refused too often has no streams for a while."""
        count_refusal(peer_id)
        logger.debug(f"refused {peer_id}: {str(error) or type(error).__name__}")
        if is_blocked(peer_id):
            for remote in list(self._remotes.values()):
                if remote.peer_id == peer_id:
                    self._forget(remote)

    # -- streams that we open

    def _reach(self, remote: Remote, lane: Lane) -> None:
        """See to it that there will be a stream."""
        if remote.needs_stream(lane):
            remote.opening.add(lane)
            self._tasks.begin(self._open(remote, lane))

    async def _open(self, remote: Remote, lane: Lane) -> None:
        try:
            reader, writer = await self._connected(remote, lane)
        except (*UNREACHED, *REFUSALS) as error:
            logger.debug(f"no stream to {remote.session}: {str(error) or type(error).__name__}")
            remote.failed(lane)
            remote.outboxes[lane].clear()
            return
        finally:
            remote.opening.discard(lane)
        await self._serve(remote, lane, reader, writer)

    async def _connected(self, remote: Remote, lane: Lane) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        limits = self._limits
        async with within(limits.hello):
            info, reader, writer = await self._p2p.call_binary_stream_handler(remote.peer_id, HANDLES[lane])
        try:
            writer.write(self._hello(info))
            hello = await read_hello(reader, limits.hello)
            if self._greeted(hello, remote.peer_id) is not remote:
                raise FrameRefused(f"its peer is {hello.session} now, or it was shut out in the meantime")
        except BaseException:
            writer.transport.abort()
            raise
        return reader, writer

    # -- while they last

    async def _serve(
        self, remote: Remote, lane: Lane, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        stream = Stream(
            lane,
            remote.session,
            reader,
            writer,
            limits=self._limits,
            budget=self._budget,
            line=self._line,
            clock=time.monotonic,
            receive=partial(self._deliver, remote.session),
            renewed=partial(self._renewed, remote),
        )
        since = time.monotonic()
        remote.streams.add(stream)
        try:
            await stream.run(remote.outboxes[lane])
        except REFUSALS as error:
            self._refuse(remote.peer_id, error)
        except Exception:
            logger.exception(f"what {remote.session} sent could not be taken in")
        finally:
            remote.streams.discard(stream)
            remote.ended(lane, has_lasted=time.monotonic() >= since + LASTING)

    def _renewed(self, remote: Remote, body: bytes) -> None:
        if self._greeted(read_hello_body(body), remote.peer_id) is not remote:
            raise FrameRefused("another session on the same stream")

    async def _tend(self) -> None:
        """Close what is silent, stuck or shut out, try again what failed, and show a renewed pass."""
        hello = self._hello()
        while True:
            await asyncio.sleep(self._limits.tend)
            try:
                before, hello = hello, self._hello()
                for remote in list(self._remotes.values()):
                    self._tend_to(remote, is_renewed=hello != before)
            except Exception:
                logger.exception("streams could not be looked after")

    def _tend_to(self, remote: Remote, is_renewed: bool) -> None:
        try:
            if remote.shown is not None:
                self._gate.admit(remote.peer_id, remote.shown)
        except REFUSALS as error:
            self._refuse(remote.peer_id, error)
            self._forget(remote)
            return
        if remote.is_idle():
            self._forget(remote)
            return
        for stream in (one for one in remote.streams if one.is_stuck(time.monotonic())):
            stream.close()
        for lane, outbox in remote.outboxes.items():
            if len(outbox):
                self._reach(remote, lane)
        if is_renewed:
            for stream in remote.on(Lane.CONTROL):
                stream.say(self._hello())

    def _forget(self, remote: Remote) -> None:
        """Close its streams and drop what waits for it; its next message begins anew."""
        for outbox in remote.outboxes.values():
            outbox.clear()
        for stream in remote.streams:
            stream.close()
        if self._remotes.get(remote.session) is remote:
            del self._remotes[remote.session]
