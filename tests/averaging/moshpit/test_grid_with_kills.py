"""Eight peers train in groups of two while one after the other is killed and replaced."""

import itertools
import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.averaging.moshpit import grid_peer
from tests.forked import Forked, start_function

pytestmark = [pytest.mark.swarm, pytest.mark.faults]
PEERS, SURVIVORS = 8, 6  # the others are killed, the last one first
KILL_EVERY = 3  # global steps
STEPS = 6
AVERAGING = {
    "target_batch_size": 256,
    "matchmaking_time": 4.0,
    "request_timeout": 1.2,
    "averaging_timeout": 30.0,
    "chunk_timeout": 4.0,
    "state_every": 2,
    "target_group_size": 2,
}
PATIENCE = 300.0  # seconds; two quiet cores need 60
LONGEST_WAIT = 60.0  # seconds between two global steps: a round, the search before it, and a batch


class Swarm:
    """Peers that train, and what they have said."""

    def __init__(self, folder: Path):
        self.folder, self.peers = folder, list[Forked]()

    def start(self) -> None:
        """One more."""
        number = len(self.peers)
        self.peers.append(start_function(grid_peer.main, self.folder, number, PEERS, out=self._log(number)))

    def kill(self, number: int) -> None:
        """It and its helpers, as the power plug would."""
        self.peers[number].kill_all()

    def taken(self, number: int) -> list[tuple[float, int]]:
        """When a peer was at which global step for the first time."""
        said = re.findall(r"^([\d.]+) taken (\d+)$", self._log(number).read_text(), re.MULTILINE)
        return [(float(moment), int(step)) for moment, step in said]

    def newest(self, number: int) -> int:
        """The global step that a peer is at."""
        return max((step for _, step in self.taken(number)), default=0)

    def begun(self, number: int) -> int:
        """The newest global step whose round a peer has begun; -1: none."""
        said = re.findall(r"^[\d.]+ began (\d+)$", self._log(number).read_text(), re.MULTILINE)
        return int(said[-1]) if said else -1

    def said(self) -> str:
        return "\n".join(f"--- {number}\n{self._log(number).read_text()}" for number in range(len(self.peers)))

    def _log(self, number: int) -> Path:
        return self.folder / f"{number}.log"


@pytest.fixture
def swarm(tmp_path: Path) -> Iterator[Swarm]:
    """Eight peers; they are gone after the test."""
    run = {
        "name": "kills",
        "data": {"train": [{"path": "unused"}]},
        "optimizer": {"learning_rate": 0.01, "warmup_steps": 2, "total_steps": 100},
        "averaging": AVERAGING,
    }
    (tmp_path / "run.yaml").write_text(yaml.safe_dump(run))
    made = Swarm(tmp_path)
    for _ in range(PEERS):
        made.start()
    yield made
    for peer in made.peers:
        peer.kill_all()


def test_a_peer_killed_in_every_third_round_stalls_nobody(swarm: Swarm):
    victims = list(range(SURVIVORS, PEERS))
    killed = 0
    deadline = time.monotonic() + PATIENCE
    while victims or min(map(swarm.newest, range(SURVIVORS))) < STEPS:
        assert time.monotonic() < deadline, swarm.said()
        assert all(peer.poll() in (None, -signal.SIGKILL) for peer in swarm.peers), swarm.said()
        if victims and swarm.begun(victims[-1]) > KILL_EVERY * killed:
            swarm.kill(victims.pop())
            swarm.start()
            killed += 1
        time.sleep(0.05)
    for number in range(SURVIVORS):
        moments = [moment for moment, _ in swarm.taken(number)]
        assert max(after - before for before, after in itertools.pairwise(moments)) < LONGEST_WAIT, swarm.said()
