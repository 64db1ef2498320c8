"""The first message of a stream in each direction: the same version and run, and a good pass.

Streams of the log and streams to hosts of experts begin with it, each in a frame of its own kind.
"""

import asyncio
import contextlib
from collections.abc import Iterator
from typing import Any

import msgspec
from hivemind.p2p import PeerID
from hivemind.p2p.p2p_daemon_bindings.control import P2PDaemonError

from swarm.access.gate import Gate
from swarm.access.passes import PassRefused
from swarm.access.refusals import is_blocked

LONGEST_HELLO = 2048  # bytes
UNREACHED = (OSError, EOFError, asyncio.TimeoutError, P2PDaemonError)  # what comes of a peer that is away or ends
REFUSALS = (ValueError, PassRefused)  # of what a peer sends


class HelloRefused(ValueError):
    """The other side is not of this run, or has too many streams."""


class Hello(msgspec.Struct, frozen=True, array_like=True):
    """Who speaks. Later versions may say more."""

    version: int
    run: str  # fingerprint
    shown: bytes  # a pass
    session: str = ""  # of the log
    seen: str = ""  # the multiaddr at which the speaker sees the other side; empty: it says nothing of it


class Greeting:
    """Makes our hello, and checks those of others.

    Args:
        version: of all that is said on these streams.
        run: on what both sides have to agree.
        session: ours, on streams of the log.
    """

    def __init__(self, gate: Gate, version: int, run: str, session: str = ""):
        self._gate, self._version, self._run, self._session = gate, version, run, session

    def hello(self, seen: str = "") -> Hello:
        """Ours, with the newest pass."""
        return Hello(self._version, self._run, self._gate.own.to_bytes(), self._session, seen)

    def check(self, hello: Hello, peer_id: PeerID) -> str:
        """The user behind a peer; asked again later, whether the pass has expired since, or its user was banned.

        Raises:
            HelloRefused: it is of another run, or was refused too often.
            PassRefused: its pass is not good.
        """
        if is_blocked(peer_id):
            raise HelloRefused("it was refused too often")
        if (hello.version, hello.run) != (self._version, self._run):
            theirs = f"version {hello.version} in run {hello.run!r:.80}"
            raise HelloRefused(f"it speaks {theirs}, we speak {self._version} in {self._run!r}")
        return self._gate.admit(peer_id, hello.shown).user


class Strangers:
    """Streams on which others have not said yet who they are.

    A hello comes with its stream, so the oldest has to go where there are too many: silent ones keep no newcomer out.
    """

    def __init__(self, most: int, most_of_a_peer: int):
        self._most, self._most_of_a_peer = most, most_of_a_peer
        self.peers: dict[asyncio.Task[Any], PeerID] = {}  # by the task that waits for the hello, the oldest first

    @contextlib.contextmanager
    def one(self, peer_id: PeerID) -> Iterator[None]:
        """While the current task waits for the hello of this peer.

        Raises:
            HelloRefused: it has too many such streams.
        """
        if list(self.peers.values()).count(peer_id) >= self._most_of_a_peer:
            raise HelloRefused(f"more than {self._most_of_a_peer} streams without a hello")
        if len(self.peers) >= self._most:
            oldest = next(iter(self.peers))
            del self.peers[oldest]
            oldest.cancel()
        task = asyncio.current_task()
        assert task is not None
        self.peers[task] = peer_id
        try:
            yield
        finally:
            self.peers.pop(task, None)
