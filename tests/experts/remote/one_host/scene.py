"""A host in virtual time, and what is around it: a directory, and peers that have states."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock

import pytest
from hivemind.p2p import PeerID

from experts.directory.assignment import Holdings
from experts.directory.records import LIFETIME, Listed
from experts.grid import Uid
from experts.host.files import StateFiles
from experts.host.settings import ExpertSettings
from experts.host.state import to_bytes
from experts.host.trained_expert import TrainedExpert
from experts.host.worker import Worker
from experts.remote import connection
from experts.remote.connection import Swarm
from experts.remote.hosting import Hosting, HostingTimes
from experts.remote.service import NOTHING_NEWER
from experts.remote.wire import Answer, Kind, Part, Result
from swarm import clock
from swarm.access.notices import Notices

SETTINGS = ExpertSettings(grid=(2, 2), width=4, hidden=4)
A, B, C, D = (0, 0), (0, 1), (1, 0), (1, 1)
TIMES = HostingTimes(look=5.0, tell=10.0, copy=120.0, transfer=60.0, all_transfers=600.0)
SETTLED = 21.0  # seconds in which a host has looked some times


def state(uid: Uid, version: int) -> bytes:
    return to_bytes(TrainedExpert(uid, SETTINGS, version))


class Peer:
    """Another host, and the connection to it."""

    def __init__(self, name: str, serves: dict[Uid, int]):
        self.peer_id, self.user = PeerID(name.encode()), name
        self.states = {uid: state(uid, version) for uid, version in serves.items()}
        self.has_now, self.versions = dict(serves), dict(serves)  # the latter in its record
        self.asked: list[Uid] = []
        self.hangs = self.leaves = False
        self.schedule_factor = 1.0  # of a coordinator
        self.refuses: dict[Uid, str] = {}
        self.copies: dict[Uid, int] = {}  # in its record
        self.stored_at: float | None = None  # its record; now, if None

    def has(self, uid: Uid, version: int) -> None:
        self.states[uid], self.has_now[uid] = state(uid, version), version

    @property
    def listed(self) -> Listed:
        expires = (clock.now() if self.stored_at is None else self.stored_at) + LIFETIME
        holdings = Holdings(self.peer_id.to_base58(), dict(self.versions), dict(self.copies), self.leaves)
        return Listed(self.peer_id, self.user, holdings, 0.0, expires)

    async def ask(self, kind: Kind, parts: tuple[Part, ...] = ()) -> tuple[Answer, bytes]:
        if kind is Kind.STATE:
            self.asked.append(parts[0].uid)
        if self.hangs:
            await asyncio.sleep(1e9)
        if kind is Kind.PING:
            return Answer(0, schedule_factor=self.schedule_factor), b""
        uid = parts[0].uid
        if 0 < self.has_now.get(uid, 0) <= parts[0].version:
            return Answer(0, (Result(uid, refused=NOTHING_NEWER.refused),)), b""
        if uid in self.refuses:
            return Answer(0, (Result(uid, refused=self.refuses[uid]),)), b""
        return Answer(0, (Result(uid, size=len(self.states[uid])),)), self.states[uid]

    def close(self) -> None:
        pass


class FakeDirectory:
    """Lists those peers; or hangs or fails."""

    def __init__(self) -> None:
        self.peers: list[Peer] = []
        self.stored: list[Holdings] = []
        self.looks: list[float] = []  # when it was read
        self.is_stored = True
        self.error: Exception | None = None
        self.hangs = False

    def store(self, _identity: Any, holdings: Holdings, _load: float, _timeout: float = 10.0) -> bool:
        self.stored.append(holdings)
        return self.is_stored

    async def read(self) -> list[Listed]:
        self.looks.append(clock.now())
        if self.hangs:
            await asyncio.sleep(1e9)
        if self.error is not None:
            raise self.error
        return [host for host in (peer.listed for peer in self.peers) if host.expires > clock.now()]


class Scene:
    """One host of ours and what is around it."""

    def __init__(self, folder: Path):
        self.folder, self.directory, self.peers = folder, FakeDirectory(), dict[PeerID, Peer]()
        identity: Any = SimpleNamespace(peer_id=PeerID(b"our own"))
        anything: Any = AsyncMock()
        anything.notices = Notices()  # they name no coordinator
        anything.own.user = "our own"
        directory: Any = self.directory
        swarm = Swarm(anything, identity, anything, "0123abcd", directory)
        self._gate = anything
        self.hosting = Hosting(swarm, SETTINGS, 4, folder, times=TIMES)

    def list(self, *peers: Peer) -> None:
        self.directory.peers = list(peers)
        self.peers.update({peer.peer_id: peer for peer in peers})

    def has_coordinator(self, peer: Peer) -> None:
        self.peers[peer.peer_id] = peer
        self._gate.notices = Notices(coordinator=peer.peer_id.to_base58())

    @property
    def experts(self) -> dict[Uid, TrainedExpert]:
        return self.hosting.worker.computing.experts

    @property
    def files(self) -> dict[Uid, int]:
        """Versions, as another process would find them."""
        files = StateFiles(self.folder, SETTINGS)
        files.load()
        return files.versions


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scene:
    """Work is done in the event loop, so that it takes no virtual time unless a fake says so."""

    async def inline(work: Callable[..., Any], *arguments: Any) -> Any:
        result = work(*arguments)
        return await result if asyncio.iscoroutine(result) else result

    async def between(_self: Worker, work: Callable[..., Any], *arguments: Any) -> Any:
        return work(*arguments)

    scene = Scene(tmp_path / "experts")
    monkeypatch.setattr(asyncio, "to_thread", inline)
    monkeypatch.setattr(Worker, "between", between)
    monkeypatch.setattr(clock, "now", lambda: 1e9 + asyncio.get_running_loop().time())
    monkeypatch.setattr(connection, "HostConnection", lambda *arguments: scene.peers[arguments[-1]])
    return scene
