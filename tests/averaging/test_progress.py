"""A real tracker of progress, alone in its swarm: when may the next round begin?"""

import time
from pathlib import Path

import pytest

from swarm.dht import Network, join_dht
from swarm.identity import load_identity
from tests.forked import runs_well
from trainer.averaging.progress import SwarmProgress
from trainer.leaving import end_process

TARGET, BATCH = 100_000, 10  # samples
PAUSE = 0.1  # seconds that a batch takes: the target is a quarter of an hour away
GRACE = 60.0  # seconds


@pytest.mark.swarm
@pytest.mark.faults
def test_whoever_leaves_in_the_first_moment_of_a_global_step_waits_until_its_end_can_be_told(tmp_path: Path):
    runs_well(leave_early, tmp_path)


def leave_early(folder: Path) -> None:
    """Compute until the end of the step can be told, and again right after the next one has begun."""
    identity = load_identity(folder / "identity.key")
    dht = join_dht("progress", identity, Network(listen=("/ip4/127.0.0.1/tcp/0",)))
    tracker = SwarmProgress(
        dht=dht, prefix="progress", target_batch_size=TARGET, private_key=identity.private_key, start=True
    )
    samples = 0
    while tracker.may_begin_within(GRACE):
        samples += BATCH
        tracker.report_local_progress(0, samples)
        time.sleep(PAUSE)
    with tracker.pause_updates():
        tracker.update_epoch(1)
        assert tracker.may_begin_within(GRACE)
        assert tracker.may_begin_within(0.0)
    tracker.shutdown(1.0)
    dht.shutdown()
    end_process()
