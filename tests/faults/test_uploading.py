"""The coordinator is killed, or stopped for a while, in the middle of a release: readers see whole ones alone."""

import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.faulty_swarm import FaultySwarm
from tests.support.hub.repositories import Repository
from tests.support.hub.stand_in import HubStandIn
from tests.support.hub.stand_in import hub_stand_in as hub_stand_in
from tests.support.small_swarm import newest_step_said, signal_group, text_of

pytestmark = [pytest.mark.swarm, pytest.mark.faults]
REPO = "river/small"
STEP_SAMPLES = 12288  # some five seconds of two trainers
STOPPED = 8.0  # seconds
RELEASED = re.compile(r"global step (\d+): released")
WHOLE = {"README.md", "SHA256SUMS", "config.json", "model.safetensors", "optimizer.pt", "trainer_state.json"}


@pytest.fixture
def swarm(
    corpus: Path, tokenizer_folder: Path, tmp_path: Path, hub_stand_in: HubStandIn, monkeypatch: pytest.MonkeyPatch
) -> Iterator[FaultySwarm]:
    """A coordinator that releases each checkpoint, and two trainers that have averaged."""
    monkeypatch.setenv("HF_TOKEN", hub_stand_in.add("asha", "river", role="write"))
    made = FaultySwarm(
        tmp_path, corpus, tokenizer_folder, target_batch_size=STEP_SAMPLES, release={"repo": REPO, "every": 1}
    )
    try:
        made.start()
        yield made
    finally:
        made.kill_all()


def test_the_coordinator_is_killed_while_it_uploads_and_started_again(swarm: FaultySwarm, hub_stand_in: HubStandIn):
    coordinator = swarm.living("coordinator")
    swarm.catch(coordinator, "uploading")
    repository = hub_stand_in.repositories.by_name[REPO]
    seen = repository.head
    coordinator.kill()
    swarm.let_go(coordinator, "uploading")
    before = newest_step_said(swarm.living("asha"))
    assert repository.head is seen
    again = swarm.coordinator()
    swarm.wait(lambda: again.said(RELEASED), "release of the new coordinator")
    swarm.wait(lambda: newest_step_said(again) > before, "coordinator at the newest global step")
    swarm.wait_until_recovered(newest_step_said(swarm.living("asha")))
    check_releases(repository)
    swarm.wait_for_agreement()
    assert swarm.ledger.rounds.flags() == []


def test_the_coordinator_is_stopped_while_it_uploads_and_goes_on(swarm: FaultySwarm, hub_stand_in: HubStandIn):
    coordinator = swarm.living("coordinator")
    swarm.catch(coordinator, "uploading")
    repository = hub_stand_in.repositories.by_name[REPO]
    seen, released = repository.head, len(coordinator.said(RELEASED))
    signal_group(coordinator, signal.SIGSTOP)
    swarm.let_go(coordinator, "uploading")
    before = swarm.newest()
    time.sleep(STOPPED)
    assert repository.head is seen
    signal_group(coordinator, signal.SIGCONT)
    swarm.wait(lambda: len(coordinator.said(RELEASED)) > released, "release")
    swarm.wait_until_recovered(swarm.newest())
    assert swarm.newest() >= before
    check_releases(repository)
    assert "Traceback" not in text_of(coordinator)


def check_releases(repository: Repository) -> None:
    """Each revision after the first is whole, and none is there twice."""
    for revision in repository.revisions[1:]:
        assert revision.files.keys() >= WHOLE
    titles = [one.title for one in repository.revisions]
    assert len(set(titles)) == len(titles)
