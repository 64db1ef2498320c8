"""A host in virtual time: when it serves, saves and copies, whatever the DHT, other hosts and the disk do."""

import asyncio
from typing import Any
from unittest.mock import Mock

import pytest

from experts.directory.records import NoAnswer
from experts.host.files import StateFiles
from experts.remote.copying import MOST_ROLLBACKS
from experts.versions import STEPS
from swarm import clock
from swarm.errors import StorageError
from tests.experts.remote.one_host.scene import SETTINGS, SETTLED, TIMES, A, B, C, D, Peer, Scene, state
from tests.experts.remote.one_host.scene import scene as scene


async def test_own_states_are_saved_while_the_dht_and_the_other_hosts_hang(scene: Scene):
    other = Peer("other", {A: 5})
    other.hangs = True
    await scene.hosting.start()
    scene.list(other)
    await asyncio.sleep(SETTLED)
    assert scene.experts.keys() == {B, C, D}
    assert other.asked == [A]
    scene.directory.hangs = True
    await asyncio.sleep(10.0)
    scene.experts[B].version = 7
    await asyncio.sleep(TIMES.copy + TIMES.look)
    assert scene.files[B] == 7


async def test_one_host_that_hangs_does_not_keep_states_of_another_away(scene: Scene):
    first, second = Peer("first", {A: 5, B: 5}), Peer("second", {C: 5, D: 5})
    first.hangs = True
    await scene.hosting.start()
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


async def test_a_bad_state_keeps_no_other_away_and_the_oldest_copy_is_first(scene: Scene):
    other = Peer("other", {A: 5, B: 5, C: 5, D: 5})
    other.states[A] = b"not a state"
    await scene.hosting.start()
    scene.list(other)
    await asyncio.sleep(SETTLED)
    assert sorted(other.asked) == [A, B, C, D]
    assert scene.hosting.holdings.copies == {B: 5, C: 5, D: 5}
    copying = scene.hosting._copying
    copying._tried_at.update({A: -3.0, B: -1.0, C: -4.0, D: -2.0})
    other.asked.clear()
    await asyncio.sleep(TIMES.look)
    assert other.asked == [C, A, D, B]


async def test_a_version_to_which_no_rollbacks_lead_is_not_copied(scene: Scene):
    other = Peer("other", {A: (MOST_ROLLBACKS + 1) * STEPS, B: MOST_ROLLBACKS * STEPS, C: 5, D: 5})
    await scene.hosting.start()
    scene.list(other)
    await asyncio.sleep(SETTLED)
    assert scene.files == {B: MOST_ROLLBACKS * STEPS, C: 5, D: 5}


async def test_a_copy_is_not_replaced_by_fewer_steps_and_serves_when_the_host_has_begun_anew(scene: Scene):
    other = Peer("other", {A: 9, B: 9, C: 9, D: 9})
    await scene.hosting.start()
    scene.list(other)
    await asyncio.sleep(SETTLED)
    assert scene.hosting.holdings.copies == {A: 9, B: 9, C: 9, D: 9}
    other.has(A, 3)
    await asyncio.sleep(TIMES.copy + TIMES.look)
    assert scene.hosting.holdings.copies[A] == scene.files[A] == 9
    other.versions[A] = 3
    await asyncio.sleep(2 * TIMES.look)
    assert scene.hosting.holdings.serves == {A: 9}


async def test_a_record_that_is_older_than_the_copy_is_no_reason_to_take_over_and_a_newer_one_is(scene: Scene):
    other = Peer("other", {A: 5, B: 5, C: 5, D: 5})
    other.has(A, 9)
    await scene.hosting.start()
    other.stored_at = clock.now()
    scene.list(other)
    await asyncio.sleep(SETTLED)
    assert scene.hosting.holdings.copies == {A: 9, B: 5, C: 5, D: 5}
    other.stored_at = clock.now()  # and still with 5 steps, so it has begun anew since
    await asyncio.sleep(2 * TIMES.look)
    assert scene.hosting.holdings.serves == {A: 9}


async def test_nothing_is_served_when_the_dht_does_not_answer_or_has_answered_only_once(scene: Scene):
    for uid in (A, B):
        StateFiles(scene.folder, SETTINGS).write(uid, 9, state(uid, 9))
    await scene.hosting.start()
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
    await asyncio.sleep(3 * TIMES.look)
    assert scene.experts.keys() == {A, B, C, D}


async def test_a_host_that_has_slept_takes_nothing_over_before_it_has_looked_again(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
):
    other, awake = Peer("other", {A: 5, B: 5, C: 5, D: 5}), clock.now
    await scene.hosting.start()
    scene.list(other)
    await asyncio.sleep(SETTLED)
    assert scene.hosting.holdings.copies.keys() == {A, B, C, D}
    monkeypatch.setattr(clock, "now", lambda: awake() + 600.0)
    scene.list()  # the record that it knew has expired, and the first answers are without a new one
    await asyncio.sleep(2 * TIMES.look)
    assert not scene.experts
    scene.list(other)
    await asyncio.sleep(2 * TIMES.look)
    assert not scene.experts
    scene.list()
    await asyncio.sleep(TIMES.look)
    assert scene.experts.keys() == {A, B, C, D}


async def test_an_expert_that_cannot_be_written_is_kept_and_no_copy_announced(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
):
    other = Peer("other", {A: 9})
    await scene.hosting.start()
    await asyncio.sleep(SETTLED)
    assert scene.experts.keys() == {A, B, C, D}
    scene.experts[A].version = 7
    with monkeypatch.context() as context:
        context.setattr(StateFiles, "write", Mock(side_effect=StorageError("the disk is full")))
        scene.list(other)
        await asyncio.sleep(SETTLED)
        assert scene.experts[A].version == 7
        assert A not in scene.hosting.holdings.copies
    await asyncio.sleep(TIMES.copy + SETTLED)
    assert scene.experts.keys() == {B, C, D}
    assert scene.hosting.holdings.copies == {A: 9}


async def test_a_file_of_no_use_is_removed_once_hosts_of_two_other_users_have_as_new_a_state(scene: Scene):
    first, second = Peer("first", {A: 5, B: 5, C: 5}), Peer("second", {})
    for uid in (A, B, C, D):
        StateFiles(scene.folder, SETTINGS).write(uid, 5, state(uid, 5))
    scene.hosting._capacity = 1
    await scene.hosting.start()
    second.copies = {A: 5, B: 4}
    scene.list(first, second)
    await asyncio.sleep(SETTLED)
    assert scene.hosting.holdings.serves == {D: 5}
    assert scene.files == {B: 5, C: 5, D: 5}, "B and C have one such state elsewhere"
    second.copies, second.leaves = {B: 5, C: 5, D: 5}, True
    await asyncio.sleep(2 * TIMES.look)
    assert scene.files == {B: 5, C: 5, D: 5}
    second.leaves = False
    for user in (first.user, "our own"):
        second.user = user
        await asyncio.sleep(2 * TIMES.look)
        assert scene.files == {B: 5, C: 5, D: 5}
    second.user = "second"
    await asyncio.sleep(2 * TIMES.look)
    assert scene.files == scene.hosting.holdings.serves == {D: 5}


async def test_one_expert_that_cannot_be_saved_keeps_no_other_from_it(scene: Scene, monkeypatch: pytest.MonkeyPatch):
    def fails(_self: StateFiles, uid: Any, *_: Any) -> bool:
        if uid == A:
            raise RuntimeError("no such tensor")
        return write(_self, uid, *_)

    write = StateFiles.write
    await scene.hosting.start()
    await asyncio.sleep(SETTLED)
    for expert in scene.experts.values():
        expert.version = 7
    monkeypatch.setattr(StateFiles, "write", fails)
    await asyncio.sleep(TIMES.copy + TIMES.look)
    assert scene.files == {A: 0, B: 7, C: 7, D: 7}
    report = await scene.hosting.report()
    assert report.problem.startswith("expert 0.0 could not be saved (RuntimeError('no such tensor'))")
    assert await scene.hosting.stop() == [A]


async def test_states_without_new_steps_are_neither_written_nor_copied(scene: Scene, monkeypatch: pytest.MonkeyPatch):
    written: list[Any] = []
    write = StateFiles.write

    def counting(self: StateFiles, uid: Any, *more: Any) -> bool:
        written.append(uid)
        return write(self, uid, *more)

    monkeypatch.setattr(StateFiles, "write", counting)
    other = Peer("other", {A: 5, B: 5})
    await scene.hosting.start()
    scene.list(other)
    await asyncio.sleep(SETTLED)
    assert sorted(written) == [A, B, C, D]
    assert len(other.asked) == 2
    await asyncio.sleep(5 * TIMES.copy)
    assert sorted(written) == [A, B, C, D]
    assert 8 <= len(other.asked) <= 12, "a question each two minutes, as before"
    other.has(A, 6)
    scene.experts[C].version = 1
    await asyncio.sleep(TIMES.copy + TIMES.look)
    assert sorted(written[4:]) == [A, C]


async def test_a_copy_of_an_earlier_process_is_announced_though_there_is_nothing_newer(scene: Scene):
    other = Peer("other", {A: 5, B: 5, C: 5, D: 5})
    StateFiles(scene.folder, SETTINGS).write(A, 5, state(A, 5))
    await scene.hosting.start()
    scene.list(other)
    await asyncio.sleep(SETTLED)
    scene.hosting._copying.had.discard(A)
    await asyncio.sleep(TIMES.copy + TIMES.look)
    assert scene.hosting.holdings.copies[A] == 5


async def test_a_record_that_is_not_stored_is_stored_at_the_next_look(scene: Scene):
    await scene.hosting.start()
    await asyncio.sleep(101.0)
    usual = len(scene.directory.stored)
    scene.directory.is_stored = False
    await asyncio.sleep(100.0)
    assert len(scene.directory.stored) - usual >= 18
    assert usual <= 13
