"""A peer of the log in a process of its own: it goes from random numbers to a goal, and tells of each step."""

import json
import signal
import sys
import threading
import time
from hashlib import blake2b
from pathlib import Path
from typing import Any

import torch

import averaging.transport.contacts_in_dht
from averaging.log.header import Entry
from averaging.log.state import State
from averaging.optimizer import CollaborativeOptimizer
from averaging.shell.connection import Membership
from swarm.access.passes import load_authority
from swarm.access.user_names import COORDINATOR
from swarm.dht.node import Network, addresses, join_dht
from swarm.identity import load_identity
from swarm.run_file import RunFile
from tests.support.hosts import move_to
from tests.support.passes import own_gate

RUN = RunFile.model_validate(
    {
        "name": "goal",
        "data": {"train": [{"path": "nothing"}]},
        "optimizer": {"learning_rate": 0.05, "warmup_steps": 1, "total_steps": 100_000},
        "averaging": {"overlap": False, "target_batch_size": 20, "snapshot_every": 5},
    }
)
TOKENS = 50  # of a batch


def take_part(told: dict[str, Any]) -> None:
    """Until SIGTERM."""
    if told.get("namespace"):
        move_to(told["namespace"])
    host = told.get("host", "127.0.0.1")
    averaging.transport.contacts_in_dht.LOOK_EVERY = 1.0  # seconds: all peers are on one machine
    folder, is_coordinator = Path(told["folder"]), told["is_coordinator"]
    asked = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: asked.set())
    identity = load_identity(folder / "identity.key")
    network = Network(
        initial_peers=told["initial_peers"],
        listen=[f"/ip4/{host}/tcp/{told['port']}"],
        client_mode=told["client_mode"],
    )
    authority = load_authority(folder.parent / "authority.key")  # trainers have it for their own passes alone
    gate = own_gate(folder, RUN.name, authority, identity, COORDINATOR if is_coordinator else told["name"])
    dht = join_dht(RUN.name, identity, network, gate)
    torch.manual_seed(0)
    model = torch.nn.Linear(300, 200)
    goal = torch.linspace(-1, 1, 300)

    def applied(entry: Entry, _seconds: float | None, state: State) -> None:
        content = blake2b(digest_size=8)
        for vector in (state.parameters, *state.moments):
            content.update(vector.numpy().tobytes())
        members = {one.user: one.weight for one in entry.header.members if one.weight}
        users = {one.session: one.user for one in entry.header.members}
        reducers = [users.get(part.reducer, part.reducer) for part in entry.header.parts]
        say(
            step=entry.header.step,
            header=entry.header.digest,
            state=content.hexdigest(),
            members=members,
            reducers=reducers,
        )

    membership = Membership(
        RUN,
        "fingerprint",
        dht,
        identity,
        gate,
        authority=authority if is_coordinator else None,
        folder=folder / "log" if is_coordinator else None,
    )
    optimizer = CollaborativeOptimizer(membership, list(model.named_parameters()), applied)
    say(address=None if told["client_mode"] else addresses(dht)[0])
    while not asked.wait(0.02):
        optimizer.check()
        if is_coordinator or not optimizer.trains:
            continue
        optimizer.begin_batch()
        model.zero_grad()
        ((model.weight - goal) ** 2).sum().backward()
        time.sleep(0.1)
        optimizer.end_batch(TOKENS)
    optimizer.shutdown()
    dht.shutdown()
    say(left=True)


def say(**what: object) -> None:
    """To the test."""
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()
