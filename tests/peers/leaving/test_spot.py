"""A trainer on a preemptible machine leaves when its cloud gives notice, and what it has brought is counted."""

from collections.abc import Callable

import pytest

from app.join.background.spot_notice import METADATA_VARIABLE
from tests.app.join.spot.metadata_stand_in import MetadataStandIn
from tests.support.small_swarm import CONTRIBUTED, SmallSwarm, living_processes, text_of

pytestmark = [pytest.mark.swarm, pytest.mark.faults]
NOTICE = 120.0  # seconds from the notice until the machine is gone


def test_a_trainer_leaves_within_the_notice_of_its_cloud(
    small_swarm: Callable[..., SmallSwarm], monkeypatch: pytest.MonkeyPatch
):
    with MetadataStandIn() as cloud:
        monkeypatch.setenv(METADATA_VARIABLE, cloud.url)
        swarm = small_swarm(target_batch_size=4096)
        volunteer = swarm.trainer("asha", "--spot", asks_for="Asha")
        swarm.wait(lambda: any(one.samples for one in swarm.ledger.sessions()), "samples of the trainer in the ledger")
        cloud.taken_away = True
        swarm.wait(lambda: volunteer.process.poll() is not None, "end of the trainer", NOTICE)
    assert volunteer.process.returncode == 0
    said = text_of(volunteer)
    assert "Amazon is taking this machine back (terminate at 2026-11-22T08:22:00Z)" in said
    assert "Traceback" not in said
    swarm.wait(lambda: not living_processes(volunteer), "end of its helpers")
    (samples,) = (int(one.replace(",", "")) for one in CONTRIBUTED.findall(said))
    swarm.wait(lambda: [(one.left, one.samples) for one in swarm.ledger.sessions()] == [(True, samples)], "all of it")
