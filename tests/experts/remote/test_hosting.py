"""A host in virtual time: when it serves, saves and copies, whatever the DHT, other hosts and the disk do."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock

import pytest
from hivemind.p2p import PeerID

from experts.directory.assignment import Holdings
from experts.directory.records import LIFETIME, Listed, NoAnswer
from experts.grid import Uid
from experts.host.files import StateFiles
from experts.host.settings import ExpertSettings
from experts.host.state import to_bytes
from experts.host.trained_expert import TrainedExpert
from experts.host.worker import Worker
from experts.remote import hosting as hosting_module
from experts.remote.hosting import Hosting, HostingTimes, Swarm
from experts.remote.wire import Answer, Kind, Part, Result
from swarm import clock
from swarm.errors import StorageError
from tests.support.virtual_time import in_virtual_time

SETTINGS = ExpertSettings(grid=(2, 2), width=4, hidden=4)
A, B, C, D = (0, 0), (0, 1), (1, 0), (1, 1)
TIMES = HostingTimes(look=5.0, tell=10.0, copy=120.0, transfer=60.0, transfers=600.0)
SETTLED = 21.0  # seconds in which a host has looked some times


def state(uid: Uid, version: int) -> bytes:
    return to_bytes(TrainedExpert(uid, SETTINGS, version))


class Peer:
    """Another host, and the connection to it."""

    def __init__(self, name: str, serves: dict[Uid, int]):
        self.peer_id = PeerID(name.encode())
        self.states = {uid: state(uid, version) for uid, version in serves.items()}
        self.versions = dict(serves)  # in its record
        self.asked: list[Uid] = []
        self.hangs = False
        self.stored_at: float | None = None  # its record; now, if None

    def has(self, uid: Uid, version: int) -> None:
        self.states[uid] = state(uid, version)

    @property
    def listed(self) -> Listed:
        expires = (clock.now() if self.stored_at is None else self.stored_at) + LIFETIME
        return Listed(self.peer_id, "", Holdings(self.peer_id.to_base58(), dict(self.versions)), 0.0, expires)

    async def ask(self, kind: Kind, parts: tuple[Part, ...]) -> tuple[Answer, bytes]:
        uid = parts[0].uid
        self.asked.append(uid)
        if self.hangs:
            await asyncio.sleep(1e9)
        return Answer(0, (Result(uid, size=len(self.states[uid])),)), self.states[uid]

    def close(self) -> None:
        pass


class FakeDirectory:
    """Lists those peers; or hangs or fails."""

    def __init__(self) -> None:
        self.peers: list[Peer] = []
        self.stored: list[Holdings] = []
        self.is_stored = True
        self.error: Exception | None = None
        self.hangs = False

    def store(self, _identity: Any, holdings: Holdings, _load: float, _timeout: float = 10.0) -> bool:
        self.stored.append(holdings)
        return self.is_stored

    async def read(self) -> list[Listed]:
        if self.hangs:
            await asyncio.sleep(1e9)
        if self.error is not None:
            raise self.error
        return [peer.listed for peer in self.peers]


class Scene:
    """One host of ours and what is around it."""

    def __init__(self, folder: Path):
        self.folder, self.directory, self.peers = folder, FakeDirectory(), dict[PeerID, Peer]()
        identity: Any = SimpleNamespace(peer_id=PeerID(b"our own"))
        anything: Any = AsyncMock()
        directory: Any = self.directory
        swarm = Swarm(anything, identity, anything, "0123abcd", directory)
        self.hosting = Hosting(swarm, SETTINGS, 4, folder, times=TIMES)

    def list(self, *peers: Peer) -> None:
        self.directory.peers = list(peers)
        self.peers.update({peer.peer_id: peer for peer in peers})

    @property
    def experts(self) -> dict[Uid, TrainedExpert]:
        return self.hosting.worker.computing.experts

    @property
    def files(self) -> dict[Uid, int]:
        """Versions, as another process would find them."""
        files = StateFiles(self.folder, SETTINGS)
        files.load()
        return files.versions

    def play(self, course: Callable[[], Awaitable[None]]) -> None:
        """Start the host, and do the rest."""

        async def all_of_it() -> None:
            await self.hosting.start()
            await course()

        in_virtual_time(all_of_it)


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
    monkeypatch.setattr(hosting_module, "HostConnection", lambda *arguments: scene.peers[arguments[-1]])
    return scene


def test_own_states_are_saved_while_the_dht_and_the_other_hosts_hang(scene: Scene):
    other = Peer("other", {A: 5})
    other.hangs = True

    async def course() -> None:
        scene.list(other)
        await asyncio.sleep(SETTLED)
        assert scene.experts.keys() == {B, C, D}
        assert other.asked == [A]
        scene.directory.hangs = True
        await asyncio.sleep(10.0)
        scene.experts[B].version = 7
        await asyncio.sleep(TIMES.copy + TIMES.look)
        assert scene.files[B] == 7

    scene.play(course)


def test_one_host_that_hangs_does_not_keep_states_of_another_away(scene: Scene):
    first, second = Peer("first", {A: 5, B: 5}), Peer("second", {C: 5, D: 5})
    first.hangs = True

    async def course() -> None:
        scene.list(first, second)
        await asyncio.sleep(SETTLED)
        assert scene.hosting.holdings.copies == {C: 5, D: 5}
        second.has(C, 8)
        await asyncio.sleep(TIMES.copy + TIMES.look)
        assert scene.files == {C: 8, D: 5}
        assert len(first.asked) >= 2, "after the time limit it is asked again"
        first.hangs = False
        await asyncio.sleep(TIMES.transfer + 2 * TIMES.look)
        assert scene.files == {A: 5, B: 5, C: 8, D: 5}

    scene.play(course)


def test_a_bad_state_keeps_no_other_away_and_the_oldest_copy_is_first(scene: Scene):
    other = Peer("other", {A: 5, B: 5, C: 5, D: 5})
    other.states[A] = b"not a state"

    async def course() -> None:
        scene.list(other)
        await asyncio.sleep(SETTLED)
        assert sorted(other.asked) == [A, B, C, D]
        assert scene.hosting.holdings.copies == {B: 5, C: 5, D: 5}
        copying = scene.hosting._copying
        copying._tried_at.update({A: -3.0, B: -1.0, C: -4.0, D: -2.0})
        other.asked.clear()
        await asyncio.sleep(TIMES.look)
        assert other.asked == [C, A, D, B]

    scene.play(course)


def test_a_copy_is_not_replaced_by_fewer_steps_and_serves_when_the_host_has_begun_anew(scene: Scene):
    other = Peer("other", {A: 9, B: 9, C: 9, D: 9})

    async def course() -> None:
        scene.list(other)
        await asyncio.sleep(SETTLED)
        assert scene.hosting.holdings.copies == {A: 9, B: 9, C: 9, D: 9}
        other.has(A, 3)
        await asyncio.sleep(TIMES.copy + TIMES.look)
        assert scene.hosting.holdings.copies[A] == scene.files[A] == 9
        other.versions[A] = 3
        await asyncio.sleep(2 * TIMES.look)
        assert scene.hosting.holdings.serves == {A: 9}

    scene.play(course)


def test_a_record_that_is_older_than_the_copy_is_no_reason_to_take_over_and_a_newer_one_is(scene: Scene):
    other = Peer("other", {A: 5, B: 5, C: 5, D: 5})
    other.has(A, 9)

    async def course() -> None:
        other.stored_at = clock.now()
        scene.list(other)
        await asyncio.sleep(SETTLED)
        assert scene.hosting.holdings.copies == {A: 9, B: 5, C: 5, D: 5}
        other.stored_at = clock.now()  # and still with 5 steps, so it has begun anew since
        await asyncio.sleep(2 * TIMES.look)
        assert scene.hosting.holdings.serves == {A: 9}

    scene.play(course)


def test_nothing_is_served_when_the_dht_does_not_answer_or_has_answered_only_once(scene: Scene):
    for uid in (A, B):
        StateFiles(scene.folder, SETTINGS).write(uid, 9, state(uid, 9))

    async def course() -> None:
        scene.directory.error = NoAnswer()
        await asyncio.sleep(301.0)  # between two looks
        assert not scene.experts
        assert scene.directory.stored[0].copies == {A: 9, B: 9}, "or the first host of all would never find a record"
        scene.directory.error = None
        await asyncio.sleep(TIMES.look)  # the first answer is without the other host
        assert not scene.experts
        other = Peer("other", {A: 9, B: 9, C: 9, D: 9})
        scene.list(other)
        await asyncio.sleep(2 * TIMES.look)
        assert not scene.experts
        scene.directory.error = NoAnswer()
        await asyncio.sleep(300.0)
        assert not scene.experts
        scene.directory.error = None
        scene.list()
        await asyncio.sleep(2 * TIMES.look)
        assert scene.experts.keys() == {A, B, C, D}

    scene.play(course)


def test_an_expert_that_cannot_be_written_is_kept_and_no_copy_announced(scene: Scene, monkeypatch: pytest.MonkeyPatch):
    def full(*_arguments: Any) -> bool:
        raise StorageError("the disk is full")

    other = Peer("other", {A: 9})

    async def course() -> None:
        await asyncio.sleep(SETTLED)
        assert scene.experts.keys() == {A, B, C, D}
        scene.experts[A].version = 7
        with monkeypatch.context() as context:
            context.setattr(StateFiles, "write", full)
            scene.list(other)
            await asyncio.sleep(SETTLED)
            assert scene.experts[A].version == 7
            assert A not in scene.hosting.holdings.copies
        await asyncio.sleep(TIMES.copy + SETTLED)
        assert scene.experts.keys() == {B, C, D}
        assert scene.hosting.holdings.copies == {A: 9}

    scene.play(course)


def test_a_record_that_is_not_stored_is_stored_at_the_next_look(scene: Scene):
    async def course() -> None:
        await asyncio.sleep(101.0)
        usual = len(scene.directory.stored)
        scene.directory.is_stored = False
        await asyncio.sleep(100.0)
        assert len(scene.directory.stored) - usual >= 18
        assert usual <= 13

    scene.play(course)
