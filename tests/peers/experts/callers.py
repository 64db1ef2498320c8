"""Hosts with short times, and a caller of experts that has joined by the link, as processes."""

import json
import time
from pathlib import Path

import torch

import app.hosting.serving
from app.join.admission import ask_for_pass
from app.join.coordinator_client import CoordinatorClient
from app.join.manifest import read_manifest
from averaging.transport.loop import LoopThread, join_daemon
from experts.directory.records import Directory
from experts.grid import all_uids
from experts.host.settings import settings_of
from experts.remote.following import follow
from experts.remote.hosting import HostingTimes
from experts.remote.remote_experts import RemoteExperts
from swarm.dht.node import Network, join_dht
from swarm.files import write_file
from swarm.logging.startup_timer import StartupTimer
from tests.support.small_swarm import run_closely

SAID, STOP = "said.json", "stop"
ROWS = 4  # for each expert in a batch


def host_closely(arguments: list[str]) -> None:
    """Be `sahaj host-experts` where all peers are on one machine."""
    app.hosting.serving.TIMES = HostingTimes(look=0.5, tell=2.0, copy=5.0, ask=2.0, handover=50.0)
    run_closely(arguments)


def call_experts(url: str, folder: Path, timeout: float) -> None:
    """Call all experts of a run without end; say how many batches all of them answered, and what the slowest took.

    The process ends when the file `stop` is in its folder.
    """
    with CoordinatorClient(url) as client:
        guest = ask_for_pass(client, None, "chitra", [folder], "caller", StartupTimer(), print)
        admitted = guest.settle(read_manifest(guest.answer.manifest, trusted=True), StartupTimer())
    run, gate = admitted.run, admitted.gate
    settings = settings_of(run)
    assert settings is not None
    dht = join_dht(run.name, admitted.identity, Network(admitted.initial_peers(), client_mode=True), gate)
    loop = LoopThread("experts")
    p2p = loop.call(join_daemon(dht))
    experts = RemoteExperts(loop, p2p, gate, guest.answer.manifest.fingerprint, settings, timeout)
    directory = Directory(dht, run.name, gate, settings.grid, settings.fingerprint)
    loop.begin(follow(directory, experts, every=0.5))
    uids, generator = list(all_uids(settings.grid)), torch.Generator().manual_seed(0)
    said = {"answered_by_all": 0, "slowest": 0.0, "silent": 0}
    while not (folder / STOP).exists():
        inputs = {uid: torch.randn(ROWS, settings.width, generator=generator) for uid in uids}
        outputs = experts.forward(inputs)
        back = experts.backward({uid: inputs[uid] for uid in outputs}, outputs)
        said["answered_by_all"] += len(back) == len(uids)
        said |= {"slowest": experts.counts.slowest, "silent": experts.counts.silent}
        write_file(folder / SAID, json.dumps(said), flush=False)
        time.sleep(0.02)
    experts.close()
    loop.call(p2p.shutdown())
    loop.stop()
    dht.shutdown()
