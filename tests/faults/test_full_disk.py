"""A coordinator whose disk is full says so and goes on; a checkpoint that did not fit leaves nothing behind."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from coordinator.checkpoints.checkpoint import newest_checkpoint
from tests.faults.agreement import compare
from tests.support.small_swarm import SmallSwarm, newest_step_said, text_of
from tests.support.waiting import PATIENCE
from tests.swarm.disk_faults import small_disk

pytestmark = [pytest.mark.swarm, pytest.mark.faults]


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with small_disk(tmp_path / "disk", 8 * 1024) as place:
        yield place


@pytest.mark.timeout(600)
def test_a_full_disk_does_not_end_the_run(corpus: Path, tokenizer_folder: Path, tmp_path: Path, disk: Path):
    folder = tmp_path / "run"
    folder.mkdir()
    swarm = SmallSwarm(folder, corpus, tokenizer_folder, target_batch_size=2048)
    swarm.state = disk / "state"
    try:
        coordinator = swarm.coordinator()
        trainer = swarm.trainer("asha")
        swarm.wait(lambda: newest_checkpoint(swarm.state / "checkpoints"), "checkpoint")
        filling = disk / "filling"
        with filling.open("wb", buffering=0) as file, pytest.raises(OSError, match="No space left"):
            while True:
                file.write(bytes(64 * 1024))
        swarm.wait(lambda: "problem: " in text_of(coordinator), "word about the full disk")
        # without its ledger the coordinator has no figures to tell; the trainer, which averages with it, has
        at_problem = newest_step_said(trainer)
        longer = at_problem + 10  # than the trainer tells of its contributions
        swarm.wait(lambda: newest_step_said(trainer) > longer, "global steps with a full disk", 2 * PATIENCE)
        assert coordinator.process.poll() is None
        assert newest_checkpoint(swarm.state / "checkpoints") is not None

        filling.unlink()
        swarm.wait(
            lambda: (newest := newest_checkpoint(swarm.state / "checkpoints")) and newest.step > at_problem,
            "checkpoint after there was room again",
        )
        swarm.wait_for_step(at_problem + 1)
        swarm.wait(
            lambda: not ((found := compare(folder / "peers", swarm.state, swarm.ledger)).lost or found.double),
            "credit for all of them, once",
        )
        assert "Traceback" not in text_of(coordinator)
    finally:
        swarm.kill_all()
