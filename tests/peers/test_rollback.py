"""Going back: the organizer calls the whole swarm to an older state, and everybody follows."""

from collections.abc import Callable

import pytest
import torch

from app.organizing.admin import admin
from coordinator.checkpoints.checkpoint import list_checkpoints
from coordinator.checkpoints.store import load_checkpoint
from coordinator.state_folder import ADMIN_KEY
from tests.support.small_swarm import SmallSwarm, text_of

pytestmark = pytest.mark.swarm
STEP_SAMPLES = 4096  # some seconds of two trainers


def test_the_swarm_goes_back_to_a_checkpoint_and_on_from_it(small_swarm: Callable[..., SmallSwarm]):
    swarm = small_swarm(target_batch_size=STEP_SAMPLES, coordinator={"keep_checkpoints": 100})
    trainers = [
        swarm.trainer("asha", asks_for="Asha"),
        swarm.trainer("bela", asks_for="Bela", client_mode=True),
    ]
    swarm.wait(lambda: sum(step.peers == 2 for step in swarm.steps()) >= 2, "global steps of both trainers")
    folder = swarm.state / "checkpoints"
    swarm.wait(lambda: list_checkpoints(folder), "checkpoint")
    chosen = list_checkpoints(folder)[-1].step
    older = load_checkpoint(folder / f"checkpoint-{chosen}").model_state
    swarm.wait_for_step(chosen + 2)
    before = swarm.done()
    admin(swarm.url, swarm.state / ADMIN_KEY, "restore", str(chosen))

    swarm.wait(lambda: all("goes back to an older state" in text_of(one) for one in trainers), "notice")
    words = f"goes back to the state of global step {chosen}, as global step "
    swarm.wait(lambda: words in text_of(swarm.peers[0]), "word of the coordinator")
    (went_on_at,) = (int(line.rsplit(" ", 1)[1]) for line in text_of(swarm.peers[0]).splitlines() if words in line)
    assert went_on_at > before
    swarm.wait((folder / f"checkpoint-{went_on_at}").is_dir, "checkpoint of what it went back to")
    restored = load_checkpoint(folder / f"checkpoint-{went_on_at}").model_state
    assert all(torch.equal(tensor, restored[name]) for name, tensor in older.items())
    # steps that are numbered from 0 in the ledger: both are beyond the leap, together
    swarm.wait(
        lambda: sum(step.peers == 2 and step.step >= went_on_at for step in swarm.steps()) >= 2,
        "global steps of both trainers after going back",
    )
    assert not [step.step for step in swarm.steps() if before + 30 < step.step < went_on_at]
    for peer in swarm.peers:
        assert peer.process.poll() is None and "Traceback" not in text_of(peer)
