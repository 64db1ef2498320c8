"""A run with experts: trainers call a host by the run's link, its experts learn, and its end stops nobody."""

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from safetensors.torch import load_file

from app.demo.peers import Peer
from experts import file_names
from experts.released import steps_of
from tests.support.small_swarm import FRIGHTENING, SmallSwarm, text_of
from tests.support.waiting import PATIENCE

pytestmark = pytest.mark.swarm
EXPERTS = {"grid": [2, 2], "width": 16, "hidden": 32, "timeout": 2.0}
ANSWERING = re.compile(r"experts (\d) of 4 answer")
WITH_EXPERTS = re.compile(r"([\d.]+) with experts, sentence order")
OTHER_BITS = "this processor computes other bits"  # of a peer whose state is not that of the others


def steps_in(checkpoints: Path) -> int:
    """Steps of the expert that has taken fewest, in the newest checkpoint with all four of them."""
    found = [steps_of(file) for file in checkpoints.glob(f"checkpoint-*/{file_names.EXPERTS}")]
    return max((min(one.values()) for one in found if len(one) == 4), default=0)


def tokens_served(swarm: SmallSwarm) -> dict[str, int]:
    """What hosts are credited, by user."""
    return {one.user: one.tokens_served for one in swarm.ledger.leaderboard() if one.tokens_served}


def answers(trainer: Peer, experts: str) -> bool:
    """Whether so many experts answer a trainer, as it says last."""
    return trainer.said(ANSWERING)[-1:] == [experts]


def test_experts_learn_on_their_host_and_the_run_goes_on_without_it(small_swarm: Callable[..., SmallSwarm]):
    swarm = small_swarm(
        target_batch_size=1024, experts=EXPERTS, averaging={"snapshot_every": 2}, coordinator={"evaluate_every": 2}
    )
    checkpoints = swarm.state / "checkpoints"
    host = swarm.host_experts("hema")
    trainers = [swarm.trainer("asha"), swarm.trainer("bela")]
    for trainer in trainers:
        swarm.wait(partial(answers, trainer, "4"), "all experts answer a trainer")
    swarm.wait(lambda: steps_in(checkpoints), "steps of all experts in a checkpoint")
    before = steps_in(checkpoints)
    swarm.wait(lambda: steps_in(checkpoints) > before, "more steps of all experts in a later checkpoint")
    swarm.wait(lambda: swarm.peers[0].said(WITH_EXPERTS), "a held-out loss with experts")

    swarm.wait(lambda: tokens_served(swarm).get("~hema"), "credit for the host")
    assert tokens_served(swarm).keys() == {"~hema"}
    swarm.wait(lambda: "2 trainers" in text_of(swarm.peers[0]), "both trainers at the coordinator")
    assert "3 trainers" not in text_of(swarm.peers[0]), "a host is none"

    host.kill()
    for trainer in trainers:
        swarm.wait(partial(answers, trainer, "0"), "a trainer that notices")
    swarm.wait_for_step(swarm.done() + 3)

    for trainer in trainers:
        assert trainer.stop(PATIENCE) == 0
        assert not FRIGHTENING.search(text_of(trainer)), text_of(trainer)
    newest = max(checkpoints.glob("checkpoint-*/mixture.safetensors"), key=lambda path: path.stat().st_mtime)
    mixture = load_file(newest)
    assert mixture["expert_term.mixture.up.weight"].any()  # it began with zeros, and experts' answers have changed it
    logs = [log.read_text() for log in swarm.folder.glob("**/logs/*.jsonl")]
    assert len(logs) >= 3 and not any(OTHER_BITS in log for log in logs)
