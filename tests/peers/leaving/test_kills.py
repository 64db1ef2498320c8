"""The power plug is pulled: whoever is left goes on, and nothing that was finished is lost."""

from collections.abc import Callable

import pytest

from tests.support.small_swarm import COUNTING, TAKEN_OVER, SmallSwarm, newest_step_said

pytestmark = pytest.mark.swarm
STEP_SAMPLES = 4096  # some seconds of two trainers


@pytest.mark.faults  # the coordinator waits a minute before it names new voters
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


def test_two_firewalled_trainers_train_through_the_coordinator(small_swarm: Callable[..., SmallSwarm]):
    swarm = small_swarm(target_batch_size=STEP_SAMPLES)
    swarm.trainer("asha", client_mode=True)
    swarm.trainer("bela", client_mode=True)
    swarm.wait(lambda: sum(step.peers == 2 for step in swarm.steps()) >= 3, "three global steps of both trainers")
    assert all(session.client_mode for session in swarm.ledger.sessions())
