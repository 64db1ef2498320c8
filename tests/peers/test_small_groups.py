"""A run whose peers average in small groups, of which the coordinator sees only its own."""

import re
from collections.abc import Callable

import pytest

from tests.peers.small_swarm import PATIENCE, SmallSwarm, text_of

pytestmark = pytest.mark.swarm
STEPS = 3
TRAINERS = 5  # with the coordinator they are two groups of three
CONTRIBUTED = re.compile(r"Thank you! You contributed ([\d,]+) samples")


def test_in_small_groups_everybody_is_credited_with_what_it_brought(small_swarm: Callable[..., SmallSwarm]):
    swarm = small_swarm(total_steps=STEPS, target_batch_size=4096, averaging={"target_group_size": 2})
    trainers = [swarm.trainer(f"trainer-{number}", client_mode=number == 1) for number in range(TRAINERS)]
    swarm.wait(lambda: all(peer.process.poll() is not None for peer in trainers), "end of the run", 2 * PATIENCE)
    assert all(peer.process.poll() == 0 for peer in trainers), swarm.last_words()
    said = {peer.name: sum(map(_number, CONTRIBUTED.findall(text_of(peer)))) for peer in trainers}
    swarm.wait(lambda: _credit(swarm) == said, f"credit for {said}")
    assert sum(one.samples for one in swarm.steps()) == sum(said.values())


def _credit(swarm: SmallSwarm) -> dict[str, int]:
    """Samples by user, in the ledger."""
    return {one.user: one.samples for one in swarm.ledger.leaderboard()}


def _number(said: str) -> int:
    return int(said.replace(",", ""))
