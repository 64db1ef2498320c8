"""The coordinator moves to another machine while volunteers train: they go on, and find it there."""

import re
import shutil
import signal
from collections.abc import Callable

import pytest

from tests.support.ports import free_port
from tests.support.small_swarm import SmallSwarm, newest_step_said, signal_group, text_of
from tests.support.waiting import PATIENCE

pytestmark = [pytest.mark.swarm, pytest.mark.faults]
STEP_SAMPLES = 4096  # some seconds of two trainers
LIFETIME = 20.0  # seconds of a pass
GIVEN = re.compile(r"~(asha|bela) was given a pass")


def test_volunteers_find_a_coordinator_that_has_moved(small_swarm: Callable[..., SmallSwarm]):
    swarm = small_swarm(access={"open": True, "pass_lifetime": LIFETIME}, target_batch_size=STEP_SAMPLES)
    trainers = [swarm.trainer(name) for name in ("asha", "bela")]
    swarm.wait(lambda: sum(step.peers == 2 for step in swarm.steps()) >= 2, "two global steps of both")
    credit = {one.user: one.samples for one in swarm.ledger.leaderboard()}
    peers = swarm.state / "peers.json"
    swarm.wait(peers.exists, "note of the peers that are there")

    old, old_url = swarm.peers[0], swarm.url
    signal_group(old, signal.SIGINT)
    assert old.process.wait(PATIENCE) == 0
    swarm.ledger.close()
    elsewhere = swarm.folder / "elsewhere"
    shutil.copytree(swarm.state, elsewhere)
    shutil.rmtree(swarm.state)
    log = elsewhere / "logs" / "coordinator.jsonl"
    given_before = len(GIVEN.findall(log.read_text()))
    swarm.move_to(elsewhere, free_port())
    coordinator = swarm.coordinator()
    assert swarm.url != old_url

    swarm.wait(lambda: newest_step_said(coordinator) > 0, "global step at the new place")
    moved_at = swarm.done()
    swarm.wait(
        lambda: set(GIVEN.findall(log.read_text())[given_before:]) == {"asha", "bela"},
        "new passes from the new place",
        3 * LIFETIME,
    )
    swarm.wait(
        lambda: sum(step.peers == 2 and step.step >= moved_at for step in swarm.steps()) >= 2, "global steps of both"
    )
    after = {one.user: one.samples for one in swarm.ledger.leaderboard()}
    assert all(after[user] > samples for user, samples in credit.items()), "credit was lost on the way"
    assert all(one.process.poll() is None for one in trainers)
    assert not any("Traceback" in text_of(one) for one in swarm.peers)
