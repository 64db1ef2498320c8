"""How often a host in virtual time looks who has which experts, and what it does not put off for that."""

import asyncio
from typing import Any

import pytest

from experts.directory.records import LIFETIME
from experts.host.files import StateFiles
from experts.remote.following import LONGEST
from tests.experts.remote.one_host.scene import SETTLED, TIMES, A, B, C, D, Peer, Scene
from tests.experts.remote.one_host.scene import scene as scene

MINUTES = 600.0  # seconds


@pytest.mark.parametrize(("others", "pause"), [(0, TIMES.look), (4, TIMES.look), (6, 9.8), (30, LONGEST)])
async def test_the_more_hosts_there_are_the_more_rarely_each_looks_and_its_record_is_as_new(
    scene: Scene, others: int, pause: float
):
    await scene.hosting.start()
    scene.list(*(Peer(f"other {at}", {}) for at in range(others)))
    await asyncio.sleep(SETTLED)
    assert scene.hosting.holdings.serves.keys() == {A, B, C, D}, "the first looks are soon"
    scene.directory.looks.clear()
    scene.directory.stored.clear()
    await asyncio.sleep(MINUTES)
    assert len(scene.directory.looks) == pytest.approx(MINUTES / pause, abs=1)
    assert len(scene.directory.stored) == pytest.approx(MINUTES / TIMES.tell, abs=1)


async def test_a_standby_among_many_hosts_takes_over_when_the_record_expires(scene: Scene):
    other = Peer("other", {A: 5, B: 5, C: 5, D: 5})
    await scene.hosting.start()
    scene.list(other, *(Peer(f"other {at}", {}) for at in range(30)))
    await asyncio.sleep(SETTLED + LONGEST)
    assert scene.hosting.holdings.copies.keys() == {A, B, C, D}
    other.stored_at = scene.directory.looks[-1] + 1.0  # it vanishes
    await asyncio.sleep(LIFETIME + TIMES.look)
    assert scene.experts.keys() == {A, B, C, D}


async def test_while_a_host_leaves_a_standby_among_many_hosts_looks_often(scene: Scene):
    other = Peer("other", {A: 5, B: 5, C: 5, D: 5})
    await scene.hosting.start()
    scene.list(other, *(Peer(f"other {at}", {}) for at in range(30)))
    await asyncio.sleep(SETTLED + LONGEST)
    other.leaves = True
    for uid in (A, B, C, D):
        other.has(uid, 9)
        other.versions[uid] = 9
    await asyncio.sleep(LONGEST + TIMES.look)
    assert scene.hosting.holdings.serves == {A: 9, B: 9, C: 9, D: 9}


async def test_records_are_kept_up_while_the_disk_is_slow(scene: Scene, monkeypatch: pytest.MonkeyPatch):
    async def slowly(*arguments: Any) -> Any:
        await asyncio.sleep(LIFETIME)
        return read(*arguments)

    read = StateFiles.read
    await scene.hosting.start()
    monkeypatch.setattr(StateFiles, "read", slowly)
    await asyncio.sleep(4 * LIFETIME)
    assert 0 < len(scene.experts) < 4
    assert len(scene.directory.stored) >= 4 * LIFETIME / TIMES.tell
