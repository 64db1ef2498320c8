"""A host that leaves, and the standby of one, in virtual time."""

import asyncio
from concurrent.futures import TimeoutError as SlowDHT

import pytest

from experts.directory.records import NoAnswer
from experts.host.trained_expert import TrainedExpert
from swarm import clock
from tests.experts.remote.one_host.scene import SETTINGS, SETTLED, TIMES, A, B, C, D, Peer, Scene
from tests.experts.remote.one_host.scene import scene as scene


async def test_a_host_that_leaves_waits_until_its_standby_serves_the_last_states(scene: Scene):
    standby = Peer("standby", {})
    await scene.hosting.start()
    standby.copies = {A: 0, B: 0}
    scene.list(standby)
    await asyncio.sleep(SETTLED)
    scene.experts.update({uid: TrainedExpert(uid, SETTINGS) for uid in (A, B, C, D)})  # C and D have no standby
    scene.experts[A].version = scene.experts[B].version = 9
    leaving = asyncio.create_task(scene.hosting.stop())
    await asyncio.sleep(2 * TIMES.look)
    assert scene.files == {A: 9, B: 9, C: 0, D: 0}
    record = scene.directory.stored[-1]
    assert record.leaves and record.serves == {A: 9, B: 9, C: 0, D: 0}
    assert not leaving.done()
    standby.versions, standby.copies = {A: 9}, {B: 9}
    await asyncio.sleep(TIMES.look)
    assert not leaving.done()
    standby.versions, standby.copies = {A: 9, B: 9}, {}
    await asyncio.sleep(TIMES.look)
    assert leaving.done() and leaving.result() == []
    assert not scene.directory.stored[-1].serves


@pytest.mark.parametrize("trouble", ["a standby that hangs", "all leave", "no answer"])
async def test_leaving_has_an_end(scene: Scene, trouble: str):
    other = Peer("other", {})
    await scene.hosting.start()
    await asyncio.sleep(SETTLED)
    assert scene.experts.keys() == {A, B, C, D}
    other.copies, other.leaves = dict.fromkeys((A, B, C, D), 0), trouble == "all leave"
    scene.list(other)
    scene.directory.error = NoAnswer() if trouble == "no answer" else None
    began = clock.now()
    assert await scene.hosting.stop() == []
    assert clock.now() - began == (0.0 if trouble == "all leave" else TIMES.handover)


@pytest.mark.parametrize("error", [NoAnswer(), SlowDHT()])
@pytest.mark.parametrize("first", [True, False])
async def test_a_moment_without_an_answer_of_the_dht_does_not_end_the_handover(
    scene: Scene, error: Exception, first: bool
):
    standby = Peer("standby", {})
    await scene.hosting.start()
    await asyncio.sleep(SETTLED)
    scene.experts[A].version = 9
    standby.copies = {A: 0}
    scene.list(standby)
    scene.directory.error = error if first else None
    leaving = asyncio.create_task(scene.hosting.stop())
    await asyncio.sleep(TIMES.look / 2)
    assert scene.directory.stored[-1].leaves, "standbys hear of it although we hear of nobody"
    scene.directory.error = None if first else error
    await asyncio.sleep(TIMES.look)
    assert not leaving.done()
    scene.directory.error, standby.versions, standby.copies = None, {A: 9}, {}
    await asyncio.sleep(TIMES.look)
    assert leaving.done()


async def test_a_standby_fetches_the_last_states_of_a_host_that_leaves_at_once_and_serves_them_from_then_on(
    scene: Scene,
):
    other = Peer("other", {A: 5, B: 5, C: 5, D: 5})
    await scene.hosting.start()
    scene.list(other)
    await asyncio.sleep(SETTLED)
    assert scene.hosting.holdings.copies == {A: 5, B: 5, C: 5, D: 5}
    other.asked.clear()
    other.leaves = True
    for uid, version in ((A, 9), (B, 5), (C, 7), (D, 8)):
        other.has(uid, version)
        other.versions[uid] = version
    other.hangs = True
    await asyncio.sleep(2 * TIMES.look)
    assert scene.hosting.holdings.serves == {B: 5}, "of the others there are more steps to be had"
    other.hangs = False
    await asyncio.sleep(TIMES.transfer + 2 * TIMES.look)
    assert sorted(set(other.asked)) == [A, C, D]
    assert scene.hosting.holdings.serves == {A: 9, B: 5, C: 7, D: 8}
