"""Attackers are understood: else it would prove nothing that they get nothing in `make test-faults`."""

from pathlib import Path

import pytest

from tests.access.attackers.intruder import EVERYTHING
from tests.access.guarded_swarm import GuardedSwarm

pytestmark = pytest.mark.swarm


def test_who_shows_a_real_pass_gets_everything_and_members_are_told_the_log(
    corpus: Path, tokenizer_folder: Path, tmp_path: Path
):
    swarm = GuardedSwarm(tmp_path, corpus, tokenizer_folder)
    try:
        coordinator = swarm.coordinator()
        with swarm.attacking("welcome", "ahead") as attack:
            swarm.wait(lambda: attack.begun("welcome", "ahead"), "attackers that have been answered")
            got = attack.got("welcome")["got"]
        assert all(gain in str(got) for gain in EVERYTHING), got
        assert coordinator.process.poll() is None
    finally:
        swarm.kill_all()
