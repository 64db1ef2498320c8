"""A trainer that reduces nothing of what it takes, in a swarm of real processes: rounds do not wait for it for long."""

from pathlib import Path
from statistics import median

import pytest
from sqlalchemy import select

from averaging.log.header import Header
from averaging.protocol.settings import Timeouts
from coordinator.ledger.storage.database import reading
from coordinator.ledger.tables import RoundRow
from coordinator.state_folder import LOG
from tests.access.attackers.staller import run_stalling
from tests.faults.agreement import headers
from tests.support.small_swarm import SmallSwarm

pytestmark = [pytest.mark.swarm, pytest.mark.faults, pytest.mark.timeout(1200)]

HONEST = ("asha", "bela", "chand")
STEPS = 20  # with it, of which the others learn in the first half


def test_a_trainer_that_reduces_nothing_gets_no_parts_and_steps_go_on_with_everybodys_gradients(
    corpus: Path, tokenizer_folder: Path, tmp_path: Path
) -> None:
    swarm = SmallSwarm(tmp_path, corpus, tokenizer_folder, target_batch_size=1024)
    swarm.run_as["eve"] = run_stalling

    def with_eve() -> list[Header]:
        return [one for one in headers(swarm.state / LOG) if any(member.user == "~eve" for member in one.members)]

    def seconds() -> dict[int, float]:
        """Of rounds, by global step counted from 1, once the ledger has them."""
        with reading(swarm.ledger.rounds._engine) as connection:
            rows = connection.execute(select(RoundRow.step, RoundRow.seconds).where(RoundRow.seconds.is_not(None)))
            return {step + 1: took for step, took in rows if took is not None}

    try:
        swarm.coordinator()
        for name in HONEST:
            swarm.trainer(name)
        swarm.wait_for_step(2)
        swarm.trainer("eve")
        swarm.wait(lambda: len([one for one in with_eve() if one.step in seconds()]) >= STEPS, "global steps with eve")
        steps = [one for one in with_eve() if one.step in seconds()][:STEPS]
        later = steps[STEPS // 2 :]
        excluded = {exclusion.session for one in later for exclusion in one.exclusions}
        assert not excluded & {member.session for one in later for member in one.members if member.user != "~eve"}
        took = [seconds()[one.step] for one in steps]
        assert max(took[: STEPS // 2]) >= Timeouts().part, "it was given nothing to reduce"
        assert median(took[STEPS // 2 :]) < Timeouts().part, "rounds go on to wait for it"
        assert swarm.ledger.rounds.flags() == []
    finally:
        swarm.kill_all()
