"""A peer is cut off from the network at each phase of a global step, and comes back."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.faulty_swarm import FaultySwarm
from tests.support.hosts import NoHosts, made_hosts
from tests.support.small_swarm import newest_step_said

pytestmark = [pytest.mark.swarm, pytest.mark.faults]
STEP_SAMPLES = 12288  # some six seconds of two trainers: TCP tries again only seconds after the cable is back
AWAY = 12.0  # seconds; a reducer waits three for a piece
ROUND = 15.0  # seconds in which a round that a peer was in is over, and its console has told the step
LONG = 45.0  # seconds, after which a voter convenes that hears of no other convener
CASES = [("bela", phase) for phase in ("accumulating", "meeting", "reducing", "voting", "stepping")]
CASES += [("coordinator", phase) for phase in ("meeting", "reducing", "proposing", "stepping", "saving")]


@pytest.fixture(scope="module")
def swarm(corpus: Path, tokenizer_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[FaultySwarm]:
    """A coordinator and two trainers that have averaged, each on a host of its own."""
    folder = tmp_path_factory.mktemp("cut-off")
    try:
        with made_hosts("coordinator", "asha", "bela") as hosts:
            swarm = FaultySwarm(folder, corpus, tokenizer_folder, target_batch_size=STEP_SAMPLES, hosts=hosts)
            try:
                swarm.start()
                yield swarm
            finally:
                swarm.kill_all()
    except NoHosts as reason:
        pytest.skip(str(reason))


@pytest.mark.parametrize(("name", "phase"), CASES)
def test_a_peer_is_cut_off_and_comes_back(swarm: FaultySwarm, name: str, phase: str):
    peer, before = swarm.living(name), swarm.newest()
    assert swarm.hosts is not None
    swarm.catch(peer, phase, cut_off=True)
    swarm.let_go(peer, phase)
    time.sleep(AWAY)
    swarm.hosts.plug_in(name)
    swarm.wait_until_recovered(swarm.newest())
    swarm.wait(lambda: swarm.newest() > before, "global step after that")


def test_a_trainer_that_is_cut_off_for_long_takes_no_steps_of_its_own(swarm: FaultySwarm):
    bela = swarm.living("bela")
    assert swarm.hosts is not None
    swarm.hosts.pull_cable("bela")
    time.sleep(ROUND)
    last = newest_step_said(bela)
    time.sleep(LONG - ROUND)
    assert newest_step_said(bela) == last
    swarm.wait(lambda: newest_step_said(swarm.living("asha")) > last + 1, "global steps of the others")
    swarm.hosts.plug_in("bela")
    swarm.wait_until_recovered(swarm.newest())


def test_after_all_of_that_ledger_and_logs_agree(swarm: FaultySwarm):
    swarm.wait_for_agreement()
    assert swarm.ledger.rounds.flags() == []
