"""One peer of `benchmarks.averaging`: a trainer on a host of its own that brings one sample to each global step."""

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from averaging.load_balancing.plan import GlobalStep, plan_round, runs, whole_parts
from averaging.log.header import Ballot
from averaging.optimizer import CollaborativeOptimizer
from averaging.protocol.actions import Action, Apply
from averaging.protocol.messages import Meet, Message
from averaging.protocol.peer import LogPeer
from averaging.protocol.rounds.parts import MemberProfile, Planned
from averaging.shell.connection import Membership
from averaging.transport.stream import Payload
from benchmarks.catching_up.worker import Journal
from swarm.dht.node import Network, addresses, join_dht
from swarm.files import write_file
from swarm.identity import load_identity
from swarm.leaving import end_process
from swarm.run_file import RunFile
from tests.support.hosts import move_to
from tests.support.passes import numbered_gate

RULES = ("equal", "hivemind", "ours")
WARM_UP = 1  # global steps before those that count
ROW = 1000  # elements
ELEMENT_BYTES = 2  # of an element as it travels
POLL = 0.02  # seconds
RUN = RunFile.model_validate(
    {
        "name": "averaging",
        "data": {"train": [{"path": "nothing"}]},
        "optimizer": {"learning_rate": 1e-3, "warmup_steps": 1, "total_steps": 100_000},
        "averaging": {"compression": "float16", "overlap": False, "snapshot_every": 50},
    }
)


@dataclass(frozen=True)
class Task:
    """What one peer is asked to do; the first one is the coordinator."""

    folder: str
    number: int
    namespace: str  # see `tests.support.hosts`
    address: str  # of the host
    uploads: tuple[float, ...]  # of all peers, Mbit/s; 0 in client mode: what hivemind's rule is told
    known: tuple[str, ...]  # addresses to join by
    rounds: int  # by each rule
    elements: int  # of the vector

    def file(self, name: str, number: int | None = None) -> Path:
        """A file of a peer."""
        return Path(self.folder) / f"{name}-{self.number if number is None else number}"

    def events(self, what: str) -> list[dict[str, Any]]:
        """What it has written down of one kind; in each `at`, seconds of the machine's monotonic clock."""
        file = self.file("events")
        lines = file.read_text().rpartition("\n")[0].splitlines() if file.exists() else []
        return [one for one in map(json.loads, lines) if one["what"] == what]

    @property
    def client_mode(self) -> bool:
        """Whether it accepts no connections."""
        return not self.uploads[self.number]

    def rule(self, step: int) -> str:
        """By which parts are dealt out in a global step; one step by ours follows in which a reducer is killed."""
        return RULES[min(max(0, step - 1 - WARM_UP) // self.rounds, len(RULES) - 1)]

    @property
    def last_step(self) -> int:
        """That in which a reducer is killed."""
        return WARM_UP + self.rounds * len(RULES) + 1


def work(task: Task) -> None:
    """Take part until the last step, or until it is killed."""
    move_to(task.namespace)
    torch.set_num_threads(1)
    identity = load_identity(task.file("key"))
    gate, authority = numbered_gate(Path(task.folder), RUN.name, identity, task.number)
    network = Network(task.known, listen=(f"/ip4/{task.address}/tcp/0",), client_mode=task.client_mode)
    dht = join_dht(RUN.name, identity, network, gate)
    parameters = [("matrix", torch.nn.Parameter(torch.zeros(task.elements // ROW, ROW)))]
    membership = Membership(
        RUN.model_copy(update={"averaging": RUN.averaging.model_copy(update={"target_batch_size": len(task.uploads)})}),
        "fingerprint",
        dht,
        identity,
        gate,
        is_coordinator=not task.known,
        authority=authority,
        folder=None if task.known else task.file("log"),
    )
    journal = Journal(task.file("events"))
    optimizer = CollaborativeOptimizer(membership, parameters)
    _note_rounds(task, optimizer, journal)
    write_file(task.file("here"), json.dumps([str(dht.peer_id), [] if task.client_mode else addresses(dht)]))
    _wait(lambda: optimizer.step >= 0)
    task.file("ready").touch()
    _wait(Path(task.folder, "go").exists)
    line = optimizer._connection._line
    for direction in (line.upload, line.download):
        direction.meter._best.clear()  # it was another line until now
    optimizer._shell.machine.session.bandwidth = None
    begun, source = -1, torch.Generator().manual_seed(task.number)  # chunks that are alike would be sent once
    while optimizer.step < task.last_step:
        optimizer.check()
        if optimizer.step > begun and optimizer.trains:
            begun = optimizer.begin_batch()
            parameters[0][1].grad = 1e-3 * torch.randn(parameters[0][1].shape, generator=source)
            optimizer.end_batch(1)
        time.sleep(POLL)
    time.sleep(5.0)  # others may still fetch
    end_process()


def _wait(happened: Any) -> None:
    while not happened():
        time.sleep(POLL)


def _note_rounds(task: Task, optimizer: CollaborativeOptimizer, journal: Journal) -> None:
    """Write down when a round begins, how it is planned, and when this peer has all of it; plan by the rules."""
    shell, connection = optimizer._shell, optimizer._connection
    send, put, met = connection.send, shell.stepping.put, set[Ballot]()
    step = GlobalStep(shell.settings.chunks, float(ELEMENT_BYTES * task.elements), len(task.uploads), overlap=False)

    def sends(session: str, to: str, message: Message, payload: Payload = None) -> None:
        if isinstance(message, Meet) and message.ballot not in met:
            met.add(message.ballot)
            journal.note("met", step=shell.machine.log.tip.step + 1)
        send(session, to, message, payload)

    def puts(machine: LogPeer, action: Action) -> None:
        if isinstance(action, Apply):
            header, upload = action.entry.header, optimizer.upload
            brought = sum(1 for one in header.members if one.weight)
            excluded = sum(len(one.chunks) for one in header.exclusions)
            journal.note("has", step=header.step, members=brought, excluded=excluded, upload=upload)
        put(machine, action)

    def plans(chunks: int, members: Sequence[MemberProfile]) -> Planned:
        head = shell.machine.head
        assert head is not None
        planned = replace(_planned(task, task.rule(head.step + 1), step, members), resting=())
        numbers = _numbers(task, members)
        counts = {numbers[part.reducer]: part.count / chunks for part in planned.parts}
        journal.note("planned", step=head.step + 1, parts=counts)
        return planned

    connection.send, shell.stepping.put = sends, puts  # type: ignore[method-assign, assignment]
    assert isinstance(shell.machine, LogPeer)
    shell.machine.convening._plan = plans


def _planned(task: Task, rule: str, step: GlobalStep, members: Sequence[MemberProfile]) -> Planned:
    from hivemind.averaging.load_balancing import load_balance_peers

    if rule == "ours":
        return plan_round(step, step.chunks, members)
    numbers = _numbers(task, members)
    uploads = [task.uploads[numbers[one.session]] for one in members]
    if rule == "equal":
        uploads = [float(upload > 0.0) for upload in uploads]
    shares = np.array(load_balance_peers(task.elements, uploads)) / task.elements
    return Planned(runs(whole_parts(shares, step.chunks), members))


def _numbers(task: Task, members: Sequence[MemberProfile]) -> dict[str, int]:
    """Of peers by session."""
    ids = [json.loads(task.file("here", number).read_text())[0] for number in range(len(task.uploads))]
    return {one.session: ids.index(one.session.partition(".")[0]) for one in members}
