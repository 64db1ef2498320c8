"""Leaving: Ctrl-C or SIGTERM at any moment ends in a friendly line, and no process stays behind."""

import re
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from app.demo.peers import Peer
from tests.support.small_swarm import (
    COUNTING,
    FRIGHTENING,
    SmallSwarm,
    living_processes,
    newest_step_said,
    signal_group,
    text_of,
)
from tests.support.waiting import PATIENCE

pytestmark = pytest.mark.swarm
STARTED = re.compile(r"(Computing \d+ samples)")
THANKS = re.compile(r"^(Thank you.*)", re.MULTILINE)
# how a terminal's Ctrl-C, `kill -INT` and a machine that shuts down ask a trainer to end
WAYS = {
    "ctrl-c": lambda peer: signal_group(peer, signal.SIGINT),
    "sigint": lambda peer: peer.process.send_signal(signal.SIGINT),
    "sigterm": lambda peer: peer.process.send_signal(signal.SIGTERM),
}


@pytest.fixture(scope="module")
def calm_swarm(corpus: Path, tokenizer_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SmallSwarm]:
    """A coordinator whose trainers accumulate most of the time: a global step takes several seconds."""
    swarm = SmallSwarm(tmp_path_factory.mktemp("calm"), corpus, tokenizer_folder, target_batch_size=4096)
    try:
        swarm.coordinator()
        yield swarm
    finally:
        swarm.kill_all()


@pytest.mark.parametrize("way", WAYS)
def test_a_trainer_that_starts_can_be_stopped(calm_swarm: SmallSwarm, way: str):
    peer = calm_swarm.trainer(f"starting-{way}")
    calm_swarm.wait(lambda: len(living_processes(peer)) > 1, "helper process of the trainer")  # it joins the DHT now
    WAYS[way](peer)
    assert _status(calm_swarm, peer) in (0, 130)  # 0: it was quicker, and had begun to train
    assert not FRIGHTENING.search(text_of(peer))
    _left_nothing(calm_swarm, peer)


@pytest.mark.parametrize("way", ["ctrl-c", pytest.param("sigterm", marks=pytest.mark.faults)])
def test_a_trainer_that_accumulates_leaves_with_thanks(calm_swarm: SmallSwarm, way: str):
    peer = calm_swarm.trainer(f"accumulating-{way}")
    calm_swarm.wait(lambda: _samples(calm_swarm, peer) > 0, "contribution of the trainer")
    _leaves(calm_swarm, peer, way)


@pytest.mark.faults
def test_a_trainer_in_a_round_of_averaging_leaves_with_thanks(small_swarm: Callable[..., SmallSwarm]):
    swarm = small_swarm(target_batch_size=512)  # which is computed before a group has formed
    peer = swarm.trainer("averaging")
    swarm.wait(lambda: _samples(swarm, peer) > 0, "contribution of the trainer")
    _leaves(swarm, peer, "sigint")


def test_helpers_end_soon_when_their_trainer_is_killed(calm_swarm: SmallSwarm):
    peer = calm_swarm.trainer("killed")
    calm_swarm.wait(lambda: peer.said(COUNTING), "first sample")
    assert len(living_processes(peer)) >= 3  # itself, the DHT, libp2p's daemon
    peer.process.kill()
    peer.process.wait()
    calm_swarm.wait(lambda: not living_processes(peer), "end of the helpers")


def test_a_coordinator_that_is_stopped_saves_and_can_go_on(small_swarm: Callable[..., SmallSwarm]):
    swarm = small_swarm(target_batch_size=512)
    coordinator = swarm.peers[0]
    swarm.trainer("asha")
    swarm.wait(lambda: newest_step_said(coordinator) >= 2, "two global steps")
    signal_group(coordinator, signal.SIGINT)
    assert coordinator.process.wait(PATIENCE) == 0
    (stopped_at,) = map(int, re.findall(r"has stopped at global step (\d+)", text_of(coordinator)))
    assert not FRIGHTENING.search(text_of(coordinator).replace("did not work", ""))
    swarm.wait(lambda: not living_processes(coordinator), "end of the helpers")
    assert (swarm.state / "checkpoints" / f"checkpoint-{stopped_at}").is_dir()


def _leaves(swarm: SmallSwarm, peer: Peer, way: str) -> None:
    WAYS[way](peer)
    assert _status(swarm, peer) == 0
    assert text_of(peer).strip().splitlines()[-1].startswith("Thank you! You contributed")
    assert len(peer.said(THANKS)) == 1
    swarm.wait(lambda: all(one.left for one in swarm.ledger.sessions() if one.user == f"~{peer.name}"), "goodbye")
    _left_nothing(swarm, peer)


def _status(swarm: SmallSwarm, peer: Peer) -> int:
    swarm.wait(lambda: peer.process.poll() is not None, f"end of {peer.name}")
    return peer.process.wait()


def _left_nothing(swarm: SmallSwarm, peer: Peer) -> None:
    frightening = FRIGHTENING.search(text_of(peer))
    assert frightening is None, f"a trainer alone need not hear {frightening.group()!r}:\n{text_of(peer)}"
    swarm.wait(lambda: not living_processes(peer), "end of the helpers")


def _samples(swarm: SmallSwarm, peer: Peer) -> int:
    return sum(one.samples for one in swarm.ledger.sessions() if one.user == f"~{peer.name}")
