"""Everybody is gone for a minute, or the coordinator for many global steps: the run goes on, and the accounts agree."""

import re
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from averaging.log.disk import LOG_FILE
from coordinator.checkpoints.checkpoint import MODEL, list_checkpoints, newest_checkpoint
from coordinator.state_folder import LOG
from tests.faults.agreement import headers
from tests.faults.faulty_swarm import FaultySwarm
from tests.support.small_swarm import COUNTING, TAKEN_OVER, newest_step_said, text_of

pytestmark = [pytest.mark.swarm, pytest.mark.faults]
STEP_SAMPLES = 2560  # two seconds of two trainers; nobody is so fast as to weigh less than it computes
OPENED_AT = re.compile(r"is open at global step (\d+) of")
MINUTE = 60.0  # seconds
MANY = 12  # global steps
PAGE = 4096  # bytes of the ledger
Start = Callable[..., FaultySwarm]


@pytest.fixture
def start(corpus: Path, tokenizer_folder: Path, tmp_path: Path) -> Iterator[Start]:
    """`start()`: a coordinator and two trainers that have averaged."""
    made: list[FaultySwarm] = []

    def make(target: int = STEP_SAMPLES) -> FaultySwarm:
        swarm = FaultySwarm(tmp_path, corpus, tokenizer_folder, target_batch_size=target)
        made.append(swarm)
        swarm.start("--grace", MINUTE)
        return swarm

    yield make
    for one in made:
        one.kill_all()


def test_all_trainers_are_gone_for_a_minute(start: Start):
    swarm = start(target=4 * STEP_SAMPLES)
    for name in ("asha", "bela"):
        swarm.living(name).kill()
    coordinator = swarm.living("coordinator")
    time.sleep(MINUTE)
    finished = newest_step_said(coordinator)
    again = [swarm.trainer(name) for name in ("asha", "bela")]
    swarm.wait(lambda: all(one.said(TAKEN_OVER) for one in again), "state taken over")
    swarm.wait(lambda: all(newest_step_said(one) >= finished for one in again), "the updates since the snapshot")
    swarm.wait(lambda: all(one.said(COUNTING) for one in again), "first samples")
    swarm.wait_until_recovered(swarm.newest())
    swarm.wait_for_agreement()


def test_the_coordinator_is_gone_for_many_steps(start: Start):
    swarm = start()
    swarm.living("coordinator").kill()
    asha = swarm.living("asha")
    until = newest_step_said(asha) + MANY
    swarm.wait(lambda: newest_step_said(asha) >= until, "many global steps without a coordinator", 3 * MINUTE)
    coordinator = swarm.coordinator()
    swarm.wait(lambda: newest_step_said(coordinator) >= until, "coordinator at the newest global step")
    swarm.wait_until_recovered(newest_step_said(asha))
    swarm.wait_for_agreement()
    assert swarm.ledger.rounds.flags() == []


def test_checkpoint_log_and_ledger_are_broken_when_the_coordinator_comes_back(start: Start):
    swarm = start()
    coordinator = swarm.living("coordinator")
    swarm.wait(lambda: len(list_checkpoints(swarm.state / "checkpoints")) >= 2, "two checkpoints")
    swarm.wait((swarm.state / "ledger.db-backup").exists, "copy of the ledger")
    coordinator.kill()
    newest = newest_checkpoint(swarm.state / "checkpoints")
    assert newest is not None
    _overwrite(newest.path / MODEL, 1 << 12, 1 << 14)
    log = swarm.state / LOG / LOG_FILE
    taken = max(header.step for header in headers(swarm.state / LOG))
    _overwrite(log, log.stat().st_size - 100, log.stat().st_size)
    swarm.ledger.close()
    _overwrite(swarm.state / "ledger.db", PAGE, 64 * PAGE)

    again = swarm.coordinator()
    swarm.wait(lambda: again.said(OPENED_AT), "coordinator that is open again")
    (opened_at,) = map(int, again.said(OPENED_AT))
    assert opened_at < taken, "a broken entry of the log was used"
    swarm.wait(lambda: newest_step_said(again) > taken, "coordinator at the newest global step")
    swarm.wait_until_recovered(newest_step_said(swarm.living("asha")))
    swarm.wait_for_agreement()
    assert (swarm.state / "ledger.db-broken-1").exists()
    assert "was broken" in text_of(again)


def test_a_spot_instance_finishes_the_step_that_it_is_in(start: Start):
    swarm = start(target=5 * STEP_SAMPLES)
    bela = swarm.living("bela")
    swarm.catch(bela, "accumulating")
    swarm.let_go(bela, "accumulating")
    swarm.catch(bela, "accumulating")  # again: with nothing in the step, there is nothing to finish
    before = newest_step_said(bela)
    bela.process.send_signal(signal.SIGTERM)
    swarm.let_go(bela, "accumulating")
    swarm.wait(lambda: bela.process.poll() is not None, "end of the trainer", MINUTE)
    assert bela.process.wait() == 0
    assert "Thank you!" in text_of(bela)
    swarm.wait(lambda: all(one.left for one in swarm.ledger.sessions() if one.user == "~bela"), "goodbye")
    swarm.wait(
        lambda: any(one.peers == 2 and one.step >= before for one in swarm.steps()), "its part in the global step"
    )
    swarm.wait_for_agreement()


def _overwrite(path: Path, start: int, end: int) -> None:
    content = bytearray(path.read_bytes())
    end = min(end, len(content))
    content[start:end] = b"\xa5" * (end - start)
    path.write_bytes(content)
