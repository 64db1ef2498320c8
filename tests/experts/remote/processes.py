"""Hosts and callers as processes of a guarded run with a DHT; each says in a JSON file how it is doing."""

import json
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from averaging.transport.loop import LoopThread, join_daemon
from experts.directory.assignment import Holdings
from experts.directory.records import Directory
from experts.grid import all_uids
from experts.host.settings import ExpertSettings
from experts.remote.following import follow
from experts.remote.hosting import Hosting, HostingTimes, Swarm
from experts.remote.remote_experts import RemoteExperts
from swarm.access.gate import Gate
from swarm.access.notices import Notices, sign_notices
from swarm.access.passes import load_authority
from swarm.dht.node import Network, addresses, join_dht
from swarm.files import write_file
from swarm.identity import load_identity

RUN_NAME, RUN = "guarded-run", "0123abcd"
SETTINGS = ExpertSettings(grid=(2, 2), width=8, hidden=16)
TIMES = HostingTimes(look=0.5, tell=2.0, copy=1.0)
ALL = tuple(all_uids(SETTINGS.grid))
STOP, ADDRESSES = "stop", "addresses.json"


@dataclass
class Joined:
    """A peer in the swarm. Its process ends when the file `stop` is there."""

    folder: Path
    name: str

    def __post_init__(self) -> None:
        known = json.loads((self.folder / ADDRESSES).read_text()) if (self.folder / ADDRESSES).exists() else []
        self.identity = load_identity(self.folder / f"{self.name}.key")
        authority = load_authority(self.folder / "authority.key")
        own = authority.issue(RUN_NAME, self.name, self.identity.peer_id, 3600.0)
        of_gate = self.folder / f"{self.name}-{os.getpid()}"
        of_gate.mkdir()
        notices = sign_notices(Notices(own.expires - 3600.0, own.expires - 3600.0, frozenset()), authority, RUN_NAME)
        self.gate = Gate(of_gate, RUN_NAME, authority.public_key, own, notices)
        network = Network(known, listen=("/ip4/127.0.0.1/tcp/0",))
        self.dht = join_dht(RUN_NAME, self.identity, network, self.gate)

    def begin(self) -> None:
        """Have an event loop, and a directory."""
        self.loop = LoopThread()
        self.p2p = self.loop.call(join_daemon(self.dht))
        self.directory = Directory(self.dht, RUN_NAME, self.gate, SETTINGS.grid, SETTINGS.fingerprint)

    @property
    def is_over(self) -> bool:
        return (self.folder / STOP).exists()

    def say(self, what: dict[str, Any]) -> None:
        write_file(self.folder / f"{self.name}.json", json.dumps(what), flush=False)

    def end(self) -> None:
        self.loop.call(self.p2p.shutdown())
        assert self.loop.stop()
        self.dht.shutdown()


def keep(folder: Path) -> None:
    """The first peer, by which others join; nothing else."""
    joined = Joined(folder, "keeper")
    write_file(folder / ADDRESSES, json.dumps(addresses(joined.dht)))
    while not joined.is_over:
        time.sleep(0.1)
    joined.dht.shutdown()


def host(folder: Path, name: str, capacity: int) -> None:
    """A host; it says what it serves and copies, with versions."""
    joined = Joined(folder, name)
    joined.begin()
    swarm = Swarm(joined.p2p, joined.identity, joined.gate, RUN, joined.directory)

    async def started() -> Hosting:
        hosting = Hosting(swarm, SETTINGS, capacity, folder / f"{name}-experts", times=TIMES)
        await hosting.start()
        hosting.worker.computing.schedule_factor = 1.0  # there is no coordinator that tells it
        return hosting

    async def held() -> Holdings:
        return hosting.holdings

    hosting = joined.loop.call(started())
    while not joined.is_over:
        holdings = joined.loop.call(held())
        joined.say(
            {
                "serves": {str(uid): version for uid, version in holdings.serves.items()},
                "copies": {str(uid): version for uid, version in holdings.copies.items()},
            }
        )
        time.sleep(0.1)
    joined.loop.call(hosting.stop())
    joined.end()


def call(folder: Path, name: str, timeout: float) -> None:
    """A caller that never stops calling; it says how many batches were answered by all, and what the slowest took."""
    joined = Joined(folder, name)
    joined.begin()
    experts = RemoteExperts(joined.loop, joined.p2p, joined.gate, RUN, SETTINGS, timeout)
    joined.loop.begin(follow(joined.directory, experts, every=0.5))
    generator = torch.Generator().manual_seed(len(name))
    batches = answered_by_all = 0
    slowest = 0.0
    while not joined.is_over:
        inputs = {uid: torch.randn(4, SETTINGS.width, generator=generator) for uid in ALL}
        begin = time.monotonic()
        outputs = experts.forward(inputs)
        middle = time.monotonic()
        back = experts.backward({uid: inputs[uid] for uid in outputs}, outputs)
        slowest = max(slowest, middle - begin, time.monotonic() - middle)
        batches += 1
        answered_by_all += len(back) == len(ALL)
        joined.say(
            {
                "batches": batches,
                "answered_by_all": answered_by_all,
                "slowest": slowest,
                "silent": experts.counts.silent,
            }
        )
        time.sleep(0.02)
    experts.close()
    joined.end()
