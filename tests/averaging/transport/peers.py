"""Peers with a libp2p daemon each, whose transports run in one event loop of a thread, as in a peer's process."""

import asyncio
import hashlib
from pathlib import Path
from typing import Any

from hivemind.p2p import P2P, PeerID

from averaging.bandwidth import OwnLine
from averaging.log.header import Ballot
from averaging.log.packing import pack
from averaging.protocol.messages import Chunk, Message, Vote
from averaging.transport.limits import Limits
from averaging.transport.loop import LoopThread
from averaging.transport.streams import HANDLES, Transport
from averaging.transport.wire_format import SLICE, VERSION, FrameKind, Lane, frame, message_head, read_hello
from swarm import clock
from swarm.access.gate import Gate
from swarm.access.greeting import Hello
from swarm.access.notices import Notices, sign_notices
from swarm.access.passes import load_authority
from tests.support.waiting import PATIENCE, wait_until

RUN = "0123abcd"
DIGEST = hashlib.sha256(b"header").hexdigest()
QUICK = Limits(tend=0.05, first_retry=0.05, longest_retry=0.2)


def chunk_of(payload: bytes) -> Chunk:
    """The message that names these bytes."""
    return Chunk(hashlib.sha256(payload).hexdigest())


def framed(body: bytes) -> bytes:
    """A message as it is sent."""
    slices = [frame(FrameKind.SLICE, body[begin : begin + SLICE]) for begin in range(0, len(body), SLICE)]
    return b"".join([message_head(len(body)), *slices])


class Watched(Transport):
    """Counts what it refuses."""

    refused = 0

    def _refuse(self, peer_id: PeerID, error: Exception) -> None:
        self.refused += 1
        super()._refuse(peer_id, error)


class Peer:
    """A session, and what has come to it."""

    def __init__(
        self,
        loop: LoopThread,
        p2p: P2P,
        number: int,
        gate: Gate,
        run: str = RUN,
        line: OwnLine | None = None,
    ):
        self.loop, self.p2p = loop, p2p
        self.id = p2p.peer_id.to_base58()
        self.session = f"{self.id}.{number:08x}"
        self.vote = Vote(Ballot(number, self.session), DIGEST)
        self.inbox: list[tuple[str, Message, bytes | None]] = []
        self.gate, self.run, self.line = gate, run, line or OwnLine()

    async def start(self, limits: Limits = QUICK) -> "Peer":
        """Listen."""
        self.transport = Watched(self.p2p, self.gate, self.run, self.session, self._deliver, limits, line=self.line)
        await self.transport.start()
        return self

    def _deliver(self, session: str, message: Message, payload: bytes | None) -> None:
        self.inbox.append((session, message, payload))

    def send(self, to: "Peer | str", message: Message, content: bytes | None = None) -> None:
        """From the test's thread."""
        payload = None if content is None else lambda: content
        session = to if isinstance(to, str) else to.session

        async def sending() -> None:
            self.transport.send(session, message, payload)

        self.loop.call(sending())

    def tells(self, other: "Peer", message: Message | None = None, content: bytes | None = None) -> None:
        """Send until it arrives, as the protocol does."""
        message = message or self.vote

        def arrived() -> bool:
            if (self.session, message) in [(one[0], one[1]) for one in other.inbox]:
                return True
            self.send(other, message, content)
            return False

        wait_until(arrived, f"{type(message).__name__} of {self.session} at {other.session}", every=0.1)

    def waits_for(self, session: str) -> bool:
        """Whether a message waits for a stream to another session, or such a stream is being opened."""
        remote = self.transport._remotes.get(session)
        return remote is not None and (bool(remote.opening) or any(map(len, remote.outboxes.values())))

    def streams(self, to: "Peer") -> list[str]:
        """Lane of each stream."""
        remote = self.transport._remotes.get(to.session)
        return sorted(one.lane.value for one in remote.streams) if remote else []


class Peers:
    """All of a test."""

    def __init__(self, loop: LoopThread, guarded: "Guarded"):
        self.loop, self.guarded = loop, guarded
        self.daemons: list[P2P] = []
        self.started: list[Peer] = []

    def daemon(self, identity: Path | None = None, **options: Any) -> P2P:
        """A libp2p daemon that knows the others."""

        async def create() -> P2P:
            known = [str(one) for one in await self.daemons[0].get_visible_maddrs()] if self.daemons else None
            path = str(identity) if identity else None
            options.setdefault("host_maddrs", ["/ip4/127.0.0.1/tcp/0"])
            return await P2P.create(initial_peers=known, identity_path=path, check_if_identity_free=False, **options)

        self.daemons.append(self.loop.call(create()))
        return self.daemons[-1]

    def start(self, limits: Limits = QUICK, p2p: P2P | None = None, gate: Gate | None = None, **options: Any) -> Peer:
        """A peer, by default with a pass; with a daemon, another one in the same place."""
        number, p2p = len(self.started) + 1, p2p or self.daemon()
        gate = gate or self.guarded.gate(f"peer{number}", p2p.peer_id)
        peer = Peer(self.loop, p2p, number, gate, **options)
        self.started.append(peer)
        return self.loop.call(peer.start(limits))

    def client(self, **options: Any) -> Peer:
        """A peer that accepts no connections, and has opened one to the first peer."""
        return self.start(p2p=self.daemon(dht_mode="client", no_listen=True, host_maddrs=None), **options)

    def intruder(self) -> "Intruder":
        """A member with a pass, which speaks by hand."""
        p2p = self.daemon()
        return Intruder(self.loop, p2p, self.guarded.gate(f"intruder{len(self.daemons)}", p2p.peer_id).own.to_bytes())

    def stop(self) -> None:
        """End all of them."""

        async def ending() -> None:
            for peer in self.started:
                await peer.transport.stop()
            for daemon in self.daemons:
                await daemon.shutdown()

        self.loop.call(ending())


class Guarded:
    """Gates of a run's peers."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.authority = load_authority(folder / "authority.key")
        self.gates: list[Gate] = []

    def gate(self, name: str, given_to: PeerID, lifetime: float = 3600.0) -> Gate:
        """With a pass that was given to some peer."""
        folder = self.folder / name
        folder.mkdir()
        own = self.authority.issue("guarded-run", name, given_to, lifetime)
        self.gates.append(Gate(folder, "guarded-run", self.authority.public_key, own, self._notices()))
        return self.gates[-1]

    def ban(self, *users: str) -> None:
        """All peers hear of it."""
        for gate in self.gates:
            gate.take_notice(self._notices(*users))

    def _notices(self, *banned: str) -> bytes:
        now = clock.now()
        return sign_notices(Notices(now, now, frozenset(banned)), self.authority, "guarded-run")


class Intruder:
    """Streams by hand, with any hello and any frames."""

    def __init__(self, loop: LoopThread, p2p: P2P, shown: bytes = b""):
        self.loop, self.p2p, self.shown = loop, p2p, shown
        self.session = f"{p2p.peer_id.to_base58()}.0bad0bad"

    async def opened(self, at: Peer, lane: Lane = Lane.CONTROL) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A stream on which nothing was said yet."""
        _, reader, writer = await self.p2p.call_binary_stream_handler(at.p2p.peer_id, HANDLES[lane])
        return reader, writer

    async def greeted(
        self, at: Peer, lane: Lane = Lane.CONTROL, **changes: Any
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A stream after the hellos; raises EOFError if the other side closes it."""
        reader, writer = await self.opened(at, lane)
        hello = {"version": VERSION, "run": RUN, "session": self.session, "shown": self.shown, **changes}
        writer.write(frame(FrameKind.HELLO, pack(Hello(**hello))))
        await read_hello(reader, PATIENCE)
        return reader, writer
