"""A peer is killed, or stopped for a while, at each phase of a global step: nothing that was finished is lost."""

import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.demo.peers import Peer
from tests.faults.faulty_swarm import FaultySwarm
from tests.support.small_swarm import COUNTING, newest_step_said, signal_group

pytestmark = [pytest.mark.swarm, pytest.mark.faults]
STEP_SAMPLES = 8192  # some four seconds of two trainers
STOPPED = 8.0  # seconds; a reducer waits three for a piece
OF_TRAINERS = ("accumulating", "meeting", "reducing", "voting", "stepping")
OF_COORDINATOR = ("meeting", "reducing", "proposing", "stepping", "saving")


@pytest.fixture(scope="module")
def swarm(corpus: Path, tokenizer_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[FaultySwarm]:
    """A coordinator and two trainers that have averaged."""
    swarm = FaultySwarm(tmp_path_factory.mktemp("phases"), corpus, tokenizer_folder, target_batch_size=STEP_SAMPLES)
    try:
        swarm.start()
        yield swarm
    finally:
        swarm.kill_all()


@pytest.fixture
def trainer(swarm: FaultySwarm) -> Peer:
    """A newcomer, in the place of the trainer beside Asha.

    What tests before have done to that one has used up its peers' patience: for minutes it would reduce nothing, and
    its gradients would not be waited for.
    """
    (other,) = (one for one in swarm.peers if one.name not in ("coordinator", "asha") and one.process.poll() is None)
    other.kill()
    newcomer = swarm.trainer(f"bela-{len(swarm.peers)}")
    until_it_takes_part(swarm, newcomer)
    return newcomer


@pytest.mark.parametrize("phase", OF_TRAINERS)
def test_a_trainer_is_stopped_and_goes_on(swarm: FaultySwarm, trainer: Peer, phase: str):
    swarm.catch(trainer, phase)
    signal_group(trainer, signal.SIGSTOP)
    swarm.let_go(trainer, phase)
    before = swarm.newest()
    time.sleep(STOPPED)
    signal_group(trainer, signal.SIGCONT)
    swarm.wait_until_recovered(swarm.newest())
    assert swarm.newest() >= before


@pytest.mark.parametrize("phase", OF_TRAINERS)
def test_a_trainer_is_killed_and_comes_again(swarm: FaultySwarm, trainer: Peer, phase: str):
    swarm.catch(trainer, phase)
    trainer.kill()
    swarm.let_go(trainer, phase)
    before = swarm.newest()
    until_it_takes_part(swarm, swarm.trainer(trainer.name))
    swarm.wait(lambda: swarm.newest() > before, "global step after that")


@pytest.mark.parametrize("phase", OF_COORDINATOR)
def test_the_coordinator_is_stopped_and_goes_on(swarm: FaultySwarm, phase: str):
    coordinator = swarm.living("coordinator")
    swarm.catch(coordinator, phase)
    signal_group(coordinator, signal.SIGSTOP)
    swarm.let_go(coordinator, phase)
    before = swarm.newest()
    time.sleep(STOPPED)
    signal_group(coordinator, signal.SIGCONT)
    swarm.wait_until_recovered(swarm.newest())
    swarm.wait(lambda: newest_step_said(coordinator) > before, "coordinator at the newest global step")


@pytest.mark.parametrize("phase", OF_COORDINATOR)
def test_the_coordinator_is_killed_and_started_again(swarm: FaultySwarm, phase: str):
    coordinator = swarm.living("coordinator")
    swarm.catch(coordinator, phase)
    coordinator.kill()
    swarm.let_go(coordinator, phase)
    before = newest_step_said(swarm.living("asha"))
    again = swarm.coordinator()
    swarm.wait(lambda: newest_step_said(again) > before, "coordinator at the newest global step")
    swarm.wait_until_recovered(newest_step_said(swarm.living("asha")))
    half = f".*partial-*-{coordinator.process.pid}-*"
    swarm.wait(lambda: not list((swarm.state / "checkpoints").glob(half)), "end of half a checkpoint")


def test_after_all_of_that_ledger_and_logs_agree(swarm: FaultySwarm):
    """Nothing is lost, nothing is counted twice, and no honest peer is flagged."""
    swarm.wait_for_agreement()
    assert swarm.ledger.rounds.flags() == []


def until_it_takes_part(swarm: FaultySwarm, trainer: Peer) -> None:
    """Wait for a trainer that was just started."""
    swarm.wait(lambda: trainer.said(COUNTING), "first sample")
    swarm.wait_until_recovered(swarm.newest())
