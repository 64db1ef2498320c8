"""A run whose peers average in small groups, of which the coordinator hears from their conveners."""

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.small_swarm import COUNTING, SmallSwarm, newest_step_said
from tests.support.waiting import PATIENCE

pytestmark = [pytest.mark.swarm, pytest.mark.faults]
STEPS = 4
TRAINERS = 5  # with the coordinator they are two groups of three
CLIENT = 1  # the one in client mode


def test_in_small_groups_everybody_is_credited_with_what_it_brought(small_swarm: Callable[..., SmallSwarm]):
    swarm = small_swarm(total_steps=STEPS, target_batch_size=4096, averaging={"target_group_size": 2})
    trainers = [swarm.trainer(f"trainer-{number}", client_mode=number == CLIENT) for number in range(TRAINERS)]
    swarm.wait(lambda: all(peer.process.poll() is not None for peer in trainers), "end of the run", 2 * PATIENCE)
    assert all(peer.process.poll() == 0 for peer in trainers), swarm.last_words()
    # in the last step all leave at once, and with them may go what somebody told of it
    said = brought(swarm.folder / "peers", STEPS - 1)
    assert len(said) == STEPS - 1
    swarm.wait(lambda: credited(swarm, STEPS - 1) == said, f"credit for {said}")


def test_trainers_that_are_killed_cost_the_others_no_more_than_a_round(small_swarm: Callable[..., SmallSwarm]):
    swarm = small_swarm(averaging={"target_group_size": 2, "state_every": 2})
    trainers = [swarm.trainer(f"trainer-{number}", client_mode=number == CLIENT) for number in range(TRAINERS)]
    swarm.wait_for_step(2)
    for victim in (trainers[0], trainers[2]):
        before = swarm.done()
        victim.kill()
        swarm.wait_for_step(before + 4)
    newcomer = swarm.trainer("newcomer")
    swarm.wait(lambda: newcomer.said(COUNTING), "sample of the newcomer")
    before = swarm.done()
    swarm.wait_for_step(before + 2)
    living = [one for one in (*trainers, newcomer) if one.process.poll() is None]
    assert len(living) == TRAINERS - 1
    swarm.wait(lambda: all(newest_step_said(one) > before for one in living), "a global step of all that live")


def brought(peers: Path, steps: int) -> dict[int, int]:
    """Samples by global step, up to so many, as the trainers' logs have them."""
    sums: Counter[int] = Counter()
    for log in peers.rglob("*.jsonl"):
        for line in map(json.loads, log.read_text().splitlines()):
            words = line["message"].replace(":", "").split()
            if line["message"].startswith("global step") and words[3:4] == ["brought"]:
                sums[int(words[2]) - 1] += int(words[4])
    return {step: samples for step, samples in sums.items() if step < steps}


def credited(swarm: SmallSwarm, steps: int) -> dict[int, int]:
    """The same, as the ledger has them."""
    return {one.step: one.samples for one in swarm.steps() if one.step < steps}
