"""The power plug is pulled: whoever is left goes on, and nothing that was finished is lost."""

import re
from collections.abc import Callable

import pytest

from tests.peers.small_swarm import COUNTING, TAKEN_OVER, SmallSwarm, newest_step_said, text_of, without_record

pytestmark = pytest.mark.swarm
STEP_SAMPLES = 4096  # some seconds of two trainers
UNCREDITED = 1  # global steps: a kill may fall into a round that works for the coordinator alone
SAVED = re.compile(r"global step (\d+): saved")
OPENED_AT = re.compile(r"is open at global step (\d+) of")


def test_the_others_go_on_when_a_trainer_is_killed(small_swarm: Callable[..., SmallSwarm]):
    swarm = small_swarm(target_batch_size=STEP_SAMPLES)
    asha, bela = swarm.trainer("asha"), swarm.trainer("bela")
    swarm.wait(lambda: any(step.peers == 2 for step in swarm.steps()), "global step of two trainers")
    before = swarm.steps()
    asha.kill()
    swarm.wait_for_step(len(before) + 3)
    after = swarm.steps()
    assert without_record(after) <= UNCREDITED
    assert [(one.step, one.loss) for one in after[: len(before)]] == [(one.step, one.loss) for one in before]
    assert after[-1].peers == 1
    assert bela.process.poll() is None
    swarm.wait(lambda: newest_step_said(swarm.peers[0]) >= len(before) + 3, "coordinator at the newest global step")
    assert "Traceback" not in text_of(bela) + text_of(swarm.peers[0])


def test_a_coordinator_started_again_catches_up_with_the_trainers(small_swarm: Callable[..., SmallSwarm]):
    swarm = small_swarm(target_batch_size=STEP_SAMPLES)
    asha, bela = swarm.trainer("asha"), swarm.trainer("bela")
    swarm.wait(lambda: any(step.peers == 2 for step in swarm.steps()), "global step of two trainers")
    address, coordinator = swarm.address, swarm.peers[0]
    swarm.wait(lambda: coordinator.said(SAVED), "checkpoint")
    coordinator.kill()
    at_kill = max(newest_step_said(coordinator), swarm.done())
    swarm.wait(lambda: newest_step_said(asha) > at_kill + 1, "global step without a coordinator")
    without = newest_step_said(asha)

    again = swarm.coordinator()
    swarm.wait(lambda: again.said(OPENED_AT), "coordinator that is open again")
    assert swarm.address == address
    (opened_at,) = map(int, again.said(OPENED_AT))
    assert opened_at < without, "the trainers were not ahead of the checkpoint"
    swarm.wait_for_step(without + 3)
    swarm.wait(lambda: newest_step_said(again) >= without + 3, "coordinator at the newest global step")
    after = swarm.steps()
    assert without_record(after) <= UNCREDITED
    # a trainer whose round failed brings nothing to that step, so that no target can be asked of each
    assert all(0 < step.peers <= 2 and step.samples > 0 for step in after)
    assert asha.process.poll() is None and bela.process.poll() is None


def test_a_newcomer_takes_over_from_the_coordinator_when_all_trainers_are_killed(
    small_swarm: Callable[..., SmallSwarm],
):
    swarm = small_swarm(target_batch_size=STEP_SAMPLES)
    trainers = [swarm.trainer("asha"), swarm.trainer("bela")]
    swarm.wait_for_step(2)
    coordinator = swarm.peers[0]
    swarm.wait(lambda: newest_step_said(coordinator) >= 2, "two global steps of the coordinator")
    for trainer in trainers:
        trainer.kill()
    finished = newest_step_said(coordinator)
    newcomer = swarm.trainer("chandra")
    swarm.wait(lambda: newcomer.said(TAKEN_OVER), "state taken over")
    taken_over = int(newcomer.said(TAKEN_OVER)[0])
    assert taken_over >= finished
    swarm.wait(lambda: newcomer.said(COUNTING), "sample of the newcomer")
    swarm.wait_for_step(taken_over + 2)
    assert without_record(swarm.steps()) <= 2 * UNCREDITED  # two kills


def test_two_firewalled_trainers_train_through_the_coordinator(small_swarm: Callable[..., SmallSwarm]):
    swarm = small_swarm(target_batch_size=STEP_SAMPLES)
    swarm.trainer("asha", client_mode=True)
    swarm.trainer("bela", client_mode=True)
    swarm.wait(lambda: sum(step.peers == 2 for step in swarm.steps()) >= 3, "three global steps of both trainers")
    assert without_record(swarm.steps()) <= UNCREDITED
    assert all(session.client_mode for session in swarm.ledger.sessions())
