"""A trainer that makes up the means which it reduces, in a swarm of real processes: proved, named and shut out."""

import json
from pathlib import Path

import pytest

from coordinator.ledger.audits.flags import MEAN
from tests.access.attackers.false_reducer import run_falsely
from tests.support.small_swarm import SmallSwarm, text_of

pytestmark = [pytest.mark.swarm, pytest.mark.faults, pytest.mark.timeout(1200)]

HONEST = ("asha", "bela", "chand")
WITHIN = 50  # global steps


def test_a_false_mean_is_proved_within_50_steps_and_its_reducer_is_shut_out(
    corpus: Path, tokenizer_folder: Path, tmp_path: Path
) -> None:
    access = {"open": True, "robust": "enforce"}
    swarm = SmallSwarm(tmp_path, corpus, tokenizer_folder, target_batch_size=1024, access=access)
    swarm.run_as["eve"] = run_falsely
    try:
        swarm.coordinator()
        for name in HONEST:
            swarm.trainer(name)
        swarm.wait_for_step(2)
        eve = swarm.trainer("eve")
        swarm.wait(lambda: [one for one in swarm.steps() if one.peers > len(HONEST)], "global step with eve")
        began = next(one.step for one in swarm.steps() if one.peers > len(HONEST))
        swarm.wait(swarm.ledger.rounds.flags, "a flag")
        assert {(one.user, one.kind) for one in swarm.ledger.rounds.flags()} == {("~eve", MEAN)}
        assert min(one.step for one in swarm.ledger.rounds.flags()) <= began + WITHIN
        swarm.wait(lambda: eve.process.poll() is not None, "end of eve, who is banned")
        assert "~eve is banned" in text_of(swarm.peers[0])
        (file, *_) = (swarm.state / "evidence").iterdir()
        assert json.loads(file.read_text())["user"] == "~eve"
        swarm.wait_for_step(swarm.steps()[-1].step + 3)
        assert {one.user for one in swarm.ledger.rounds.flags()} == {"~eve"}
    finally:
        swarm.kill_all()
