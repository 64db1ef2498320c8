"""How often a trainer looks who has which experts, in virtual time."""

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from hivemind.p2p import PeerID

from experts.directory.assignment import Holdings
from experts.directory.records import LIFETIME, Listed, NoAnswer
from experts.grid import Uid
from experts.remote import following
from experts.remote.following import LONGEST, LOOK_EVERY, SOUGHT, follow
from swarm import clock

MINUTES = 600.0  # seconds


class Table:
    """A directory of some hosts, and the experts of a trainer that looks there."""

    def __init__(self, hosts: int, trainers: int):
        self.lost_at, self.looks, self.used = float("-inf"), list[float](), list[dict[Uid, PeerID]]()
        self.hosts, self.answers = hosts, True
        directory: Any = self
        self.following = asyncio.create_task(follow(directory, directory, lambda: trainers))

    async def read(self) -> list[Listed]:
        self.looks.append(clock.now())
        if not self.answers:
            raise NoAnswer
        peers = [PeerID(f"host {at}".encode()) for at in range(self.hosts)]
        return [
            Listed(peer, "amina", Holdings(peer.to_base58(), serves={(at,): 1}), 0.0, clock.now() + LIFETIME)
            for at, peer in enumerate(peers)
        ]

    def use(self, routes: dict[Uid, PeerID]) -> None:
        self.used.append(routes)


@pytest.fixture(autouse=True)
def no_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    async def inline(work: Callable[[], Any]) -> Any:
        result = work()
        return await result if asyncio.iscoroutine(result) else result

    def now() -> float:
        return asyncio.get_running_loop().time()

    monkeypatch.setattr(asyncio, "to_thread", inline)
    monkeypatch.setattr(clock, "now", now)
    monkeypatch.setattr(following, "time", SimpleNamespace(monotonic=now))


@pytest.mark.parametrize(
    ("hosts", "trainers", "pause"), [(0, 50, LOOK_EVERY), (3, 8, LOOK_EVERY), (5, 10, 10.0), (40, 500, LONGEST)]
)
async def test_the_more_hosts_and_trainers_there_are_the_more_rarely_a_trainer_looks(
    hosts: int, trainers: int, pause: float
):
    table = Table(hosts, trainers)
    await asyncio.sleep(MINUTES - 1.0)
    assert len(table.looks) == MINUTES / pause
    assert LONGEST <= LIFETIME / 2, "a record that one look misses is found by the next"


async def test_after_an_expert_has_lost_its_host_a_trainer_looks_often_for_a_while():
    table = Table(40, trainers=500)
    await asyncio.sleep(MINUTES + 1.0)
    table.lost_at = clock.now()
    table.looks.clear()
    await asyncio.sleep(SOUGHT)
    assert len(table.looks) == SOUGHT / LOOK_EVERY
    table.looks.clear()
    await asyncio.sleep(MINUTES)
    assert len(table.looks) == MINUTES / LONGEST


async def test_a_look_that_has_failed_is_repeated_soon_and_the_last_table_stays():
    table = Table(40, trainers=500)
    await asyncio.sleep(1.0)
    table.answers = False
    await asyncio.sleep(MINUTES)
    assert len(table.looks) >= (MINUTES - LONGEST) / LOOK_EVERY
    assert len(table.used) == 1
