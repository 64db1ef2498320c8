"""A peer whose DHT is killed or stands still says so and ends, and leaves nothing behind."""

import json
import re
import signal
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import psutil
import pytest

import swarm.dht.liveness
from app.demo.peers import Peer
from tests.support.forked import Forked, run_sahaj, start_function
from tests.support.small_swarm import (
    CONTRIBUTED,
    COUNTING,
    FRIGHTENING,
    PATIENCE,
    SmallSwarm,
    living_processes,
    newest_step_said,
    text_of,
)

pytestmark = [pytest.mark.swarm, pytest.mark.faults]
STATUS = 5  # of a process that has no swarm
LATE, SILENCE = 3.0, 20.0  # seconds, for peers of this test
KILLED = "the process of this peer's DHT was killed by SIGKILL"
SILENT = re.compile(r"the part of this program that finds other peers \(the DHT\) has not answered for \d+ s")
STOPPED_AT = re.compile(r"has stopped at global step (\d+)")
GIVEN_UP = re.compile(r"^problem: (.*); the program is stopping, so start it again$", re.MULTILINE)


class Impatient(SmallSwarm):
    """Its coordinator gives a silent DHT up sooner."""

    def fork(self, name: str, command: list[object], log: Path, environment: Mapping[str, str]) -> Forked:
        assert not environment
        return start_function(run_impatiently, list(map(str, command)), out=log)


def run_impatiently(arguments: list[str]) -> None:
    swarm.dht.liveness.LATE, swarm.dht.liveness.DHT_SILENCE = LATE, SILENCE
    run_sahaj(arguments)


@pytest.mark.timeout(600)
def test_peers_whose_dht_is_killed_say_so_and_end(small_swarm: Callable[..., SmallSwarm]):
    run = small_swarm(target_batch_size=2048)
    coordinator, trainer = run.peers[0], run.trainer("asha")
    run.wait(lambda: newest_step_said(coordinator) >= 2, "two global steps of the coordinator")

    node_of(coordinator).kill()
    assert ended(run, coordinator) == KILLED
    (stopped_at,) = map(int, coordinator.said(STOPPED_AT))
    assert (run.state / "checkpoints" / f"checkpoint-{stopped_at}").is_dir()

    again = run.coordinator()  # the port is free, and so is the identity
    run.wait(lambda: newest_step_said(again) > stopped_at, "global step after the restart")
    assert trainer.process.poll() is None and trainer.said(COUNTING)

    node_of(trainer).kill()
    assert ended(run, trainer) == KILLED
    assert trainer.said(CONTRIBUTED)
    assert again.process.poll() is None


@pytest.mark.timeout(600)
def test_a_coordinator_waits_for_a_frozen_dht_for_a_while(corpus: Path, tokenizer_folder: Path, tmp_path: Path):
    run = Impatient(tmp_path, corpus, tokenizer_folder)
    try:
        coordinator = run.coordinator()
        node = node_of(coordinator)
        run.wait(lambda: health(run) == (200, "ok"), "good health")
        node.suspend()
        run.wait(lambda: health(run)[0] == 503, "word of the silence")
        assert SILENT.fullmatch(health(run)[1])
        node.resume()
        run.wait(lambda: "The DHT answers again, after" in text_of(coordinator), "word of its end")
        run.wait(lambda: health(run) == (200, "ok"), "good health")
        assert coordinator.process.poll() is None

        node.suspend()
        assert SILENT.fullmatch(ended(run, coordinator))
    finally:
        run.kill_all()


@pytest.mark.timeout(600)
def test_a_coordinator_without_libp2ps_daemon_ends(corpus: Path, tokenizer_folder: Path, tmp_path: Path):
    run = Impatient(tmp_path, corpus, tokenizer_folder)
    try:
        coordinator = run.coordinator()
        (daemon,) = node_of(coordinator).children()
        daemon.send_signal(signal.SIGKILL)
        assert SILENT.fullmatch(ended(run, coordinator))
    finally:
        run.kill_all()


def node_of(peer: Peer) -> psutil.Process:
    """The process of its DHT: the one that has started libp2p's daemon."""
    (node,) = (
        one
        for one in psutil.Process(peer.process.pid).children()
        if any("p2pd" in child.name() for child in one.children())
    )
    return node


def ended(run: SmallSwarm, peer: Peer) -> str:
    """How the peer explains its end, in one line; nothing of it is left."""
    run.wait(lambda: peer.process.poll() is not None, f"end of {peer.name}", 2 * PATIENCE)
    assert peer.process.returncode == STATUS, text_of(peer)
    assert not FRIGHTENING.search(text_of(peer).replace("did not work", ""))
    run.wait(lambda: not living_processes(peer), "end of the helpers", 1.0)
    (why,) = peer.said(GIVEN_UP)
    return why


def health(run: SmallSwarm) -> tuple[int, Any]:
    """What the coordinator says of itself: status of HTTP, and words."""
    try:
        with urllib.request.urlopen(f"{run.url}/healthz", timeout=30) as answer:
            return answer.status, json.load(answer)["status"]
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)["status"]
