"""Real peers with passes over libp2p, each a process: the same bytes through kills, restarts and newcomers."""

import json
import signal
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from swarm.access.passes import load_authority
from tests.averaging.swarm.peer import take_part
from tests.support.forked import Forked, start_function
from tests.support.hosts import Hosts
from tests.support.ports import free_port
from tests.support.waiting import wait_until

pytestmark = pytest.mark.swarm


@dataclass
class Peer:
    """One process."""

    name: str
    process: Forked
    out: Path

    def told(self) -> list[dict[str, Any]]:
        """What it has said, line by line."""
        whole = self.out.read_text().rpartition("\n")[0]
        return [json.loads(line) for line in whole.splitlines() if line.startswith("{")]

    def steps(self) -> dict[int, dict[str, Any]]:
        """Steps that it has applied."""
        return {one["step"]: one for one in self.told() if "step" in one}


@dataclass
class Peers:
    """A coordinator and trainers."""

    folder: Path
    living: dict[str, Peer] = field(default_factory=dict)
    dead: list[Peer] = field(default_factory=list)
    address: str = ""
    hosts: Hosts | None = None  # of their own

    def __post_init__(self) -> None:
        load_authority(self.folder / "authority.key")
        self.port = free_port()

    def start(self, name: str, client_mode: bool = False) -> Peer:
        """One more; the first one is the coordinator."""
        is_coordinator = name == "coordinator"
        folder = self.folder / name
        folder.mkdir(exist_ok=True)
        out = folder / f"out.{len(self.dead)}"
        given = {
            "name": name,
            "folder": str(folder),
            "is_coordinator": is_coordinator,
            "initial_peers": [] if is_coordinator else [self.address],
            "port": self.port if is_coordinator else 0,
            "client_mode": client_mode,
        }
        if self.hosts is not None:
            given |= {"namespace": self.hosts.namespace(name), "host": self.hosts.addresses[name]}
        process = start_function(take_part, given, out=out, err=folder / "errors")
        peer = self.living[name] = Peer(name, process, out)
        if is_coordinator:
            self.wait(peer.told, "coordinator's address")
            self.address = peer.told()[0]["address"]
        return peer

    def kill(self, name: str) -> None:
        """Without a word."""
        peer = self.living.pop(name)
        peer.process.kill()
        peer.process.wait()
        self.dead.append(peer)

    def wait(self, happened: Any, what: str) -> None:
        """As `wait_until`, while all live."""

        def look() -> bool:
            for peer in self.living.values():
                assert peer.process.poll() is None, f"{peer.name} has ended: {self.errors(peer.name)}"
            return bool(happened())

        wait_until(
            look, lambda: f"{what}: {[(one.name, max(one.steps(), default=-1)) for one in self.living.values()]}"
        )

    def errors(self, name: str) -> str:
        """What a peer has written to its standard error last."""
        return (self.folder / name / "errors").read_text()[-2000:]

    def check(self) -> None:
        """Equal steps are equal headers and equal states."""
        known: dict[int, tuple[str, str]] = {}
        for peer in [*self.living.values(), *self.dead]:
            for step, one in peer.steps().items():
                assert known.setdefault(step, (one["header"], one["state"])) == (one["header"], one["state"]), step


@pytest.fixture
def peers(tmp_path: Path) -> Iterator[Peers]:
    """None yet."""
    found = Peers(tmp_path)
    try:
        yield found
    finally:
        for peer in found.living.values():
            peer.process.kill_all()


def test_peers_hold_the_same_bytes_through_kills_newcomers_and_a_restarted_coordinator(peers: Peers):
    coordinator = peers.start("coordinator")
    for name in ("asha", "bela"):
        peers.start(name)
    chand = peers.start("chand", client_mode=True)
    peers.wait(lambda: all(len(one.steps()) >= 3 for one in peers.living.values()), "three steps of each")
    everybody = {"asha", "bela", "chand"}
    peers.wait(lambda: everybody <= {name for one in coordinator.steps().values() for name in one["members"]}, "credit")
    peers.check()

    peers.kill("bela")
    before = max(chand.steps())
    peers.wait(lambda: max(chand.steps()) >= before + 3, "steps after a kill")

    peers.kill("coordinator")
    before = max(chand.steps())
    again = peers.start("coordinator")
    dina = peers.start("dina")
    peers.wait(lambda: max(chand.steps()) >= before + 3, "steps after the coordinator's restart")
    peers.wait(lambda: len(again.steps()) >= 3, "steps of the coordinator that was started again")
    peers.wait(lambda: any("dina" in one["members"] for one in dina.steps().values()), "a step with the newcomer")
    peers.check()

    for peer in peers.living.values():
        peer.process.send_signal(signal.SIGTERM)
    for peer in peers.living.values():
        assert peer.process.wait(120) == 0, peers.errors(peer.name)
    peers.check()
