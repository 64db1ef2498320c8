"""The disk is lost: a coordinator from a backup, made as the page for organizers says, continues where the swarm is."""

import contextlib
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.small_swarm import SmallSwarm, signal_group, text_of
from tests.support.waiting import PATIENCE

pytestmark = [pytest.mark.swarm, pytest.mark.faults]
PAGE = Path(__file__).parents[2] / "docs" / "organizing.md"
STEP_SAMPLES = 4096  # some seconds of two trainers


def left_out() -> list[str]:
    """What the page's command leaves out."""
    (command,) = (line for line in PAGE.read_text().splitlines() if "restic backup" in line)
    words = [word.strip("'") for word in command.split()]
    return [words[place + 1] for place, word in enumerate(words) if word == "--exclude"]


def test_a_run_goes_on_with_a_coordinator_from_a_backup(small_swarm: Callable[..., SmallSwarm]):
    swarm = small_swarm(target_batch_size=STEP_SAMPLES)
    trainers = [swarm.trainer(name) for name in ("asha", "bela")]
    swarm.wait_for_step(2)
    swarm.wait((swarm.state / "ledger.db-backup").exists, "copy of the ledger")
    keys = {name: (swarm.state / name).read_bytes() for name in ("identity.key", "authority.key", "admin.key")}
    backup = swarm.folder / "backup"
    with contextlib.suppress(shutil.Error):  # files that were removed meanwhile
        shutil.copytree(swarm.state, backup, ignore=shutil.ignore_patterns(*left_out()))
    copied = swarm.done()
    swarm.wait_for_step(copied + 2)  # which the backup does not know
    credit = {one.user: one.samples for one in swarm.ledger.leaderboard()}

    signal_group(swarm.peers[0], signal.SIGKILL)
    swarm.peers[0].process.wait(PATIENCE)
    swarm.ledger.close()
    shutil.rmtree(swarm.state)
    swarm.move_to(backup, swarm.port)
    coordinator = swarm.coordinator()
    assert {name: (backup / name).read_bytes() for name in keys} == keys
    swarm.wait_for_step(copied + 4)
    swarm.wait(
        lambda: all(
            {one.user: one.samples for one in swarm.ledger.leaderboard()}.get(user, 0) >= samples
            for user, samples in credit.items()
        ),
        f"credit of before, {credit}",
    )
    assert all(one.process.poll() is None for one in trainers)
    assert "Traceback" not in text_of(coordinator)
