"""One peer of `benchmarks.nat`: a trainer on a host of its own that brings one sample a step."""

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from averaging.load_balancing.plan import GlobalStep, plan_round
from averaging.log.header import Ballot
from averaging.optimizer import CollaborativeOptimizer
from averaging.protocol.actions import Action, Apply
from averaging.protocol.messages import Meet, Message
from averaging.protocol.peer import LogPeer
from averaging.protocol.rounds.parts import MemberProfile, Planned
from averaging.shell.connection import Membership
from averaging.transport.stream import Payload
from benchmarks.averaging.worker import ELEMENT_BYTES, ROW, RUN
from benchmarks.catching_up.worker import Journal
from swarm.dht.node import Network, addresses, join_dht
from swarm.files import write_file
from swarm.identity import load_identity
from swarm.leaving import end_process
from tests.support.hosts import move_to
from tests.support.passes import numbered_gate

PORT = 31337
POLL = 0.02  # seconds
LAST_FETCHES = 5.0  # seconds in which others may still fetch


@dataclass(frozen=True)
class Task:
    """What one peer is asked to do; the first one is the coordinator."""

    folder: str
    number: int
    namespace: str  # see `tests.support.hosts`
    address: str  # of the host, or of its router
    behind_router: bool
    opens_ways: bool  # else the coordinator speaks TCP alone, and those behind routers are in client mode for good
    peers: int
    known: tuple[str, ...]  # addresses to join by
    steps: int
    elements: int  # of the vector

    def file(self, name: str, number: int | None = None) -> Path:
        """A file of a peer."""
        return Path(self.folder) / f"{name}-{self.number if number is None else number}"

    def events(self, what: str) -> list[dict[str, Any]]:
        """What it has written down of one kind; in each `at`, seconds of the machine's monotonic clock."""
        file = self.file("events")
        lines = file.read_text().rpartition("\n")[0].splitlines() if file.exists() else []
        return [one for one in map(json.loads, lines) if one["what"] == what]


def work(task: Task) -> None:
    """Take part until the last step."""
    move_to(task.namespace)
    torch.set_num_threads(1)
    identity = load_identity(task.file("key"))
    gate, authority = numbered_gate(Path(task.folder), RUN.name, identity, task.number)
    port = PORT if task.opens_ways and not task.known else 0
    network = Network(task.known, listen=(f"/ip4/{task.address}/tcp/{port}",), client_mode=task.behind_router)
    dht = join_dht(RUN.name, identity, network, gate)
    parameters = [("matrix", torch.nn.Parameter(torch.zeros(task.elements // ROW, ROW)))]
    membership = Membership(
        RUN.model_copy(update={"averaging": RUN.averaging.model_copy(update={"target_batch_size": task.peers})}),
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
    write_file(task.file("here"), json.dumps([str(dht.peer_id), [] if task.behind_router else addresses(dht)]))
    _wait(lambda: optimizer.step >= 0)
    task.file("ready").touch()
    _note_ways(task, optimizer, journal)
    line = optimizer._connection._line
    for direction in (line.upload, line.download):
        direction.meter._best.clear()  # it was another line until now
    optimizer._shell.machine.session.bandwidth = None
    begun, source = -1, torch.Generator().manual_seed(task.number)  # chunks that are alike would be sent once
    while optimizer.step < task.steps:
        optimizer.check()
        if optimizer.step > begun and optimizer.trains:
            begun = optimizer.begin_batch()
            parameters[0][1].grad = 1e-3 * torch.randn(parameters[0][1].shape, generator=source)
            optimizer.end_batch(1)
        time.sleep(POLL)
    time.sleep(LAST_FETCHES)
    end_process()


def _wait(happened: Callable[[], bool]) -> None:
    while not happened():
        time.sleep(POLL)


def _note_ways(task: Task, optimizer: CollaborativeOptimizer, journal: Journal) -> None:
    """Write down to how many others there is a way, until all may begin."""
    ways = -1
    while not Path(task.folder, "go").exists():
        now = len(optimizer._shell.machine.session.connected)
        if now != ways:
            ways = now
            journal.note("ways", count=ways)
        time.sleep(POLL)


def _note_rounds(task: Task, optimizer: CollaborativeOptimizer, journal: Journal) -> None:
    """Write down when a round begins, who may reduce in it and who does, and when this peer has all of it."""
    shell, connection = optimizer._shell, optimizer._connection
    send, put, met = connection.send, shell.stepping.put, set[Ballot]()
    step = GlobalStep(shell.settings.chunks, float(ELEMENT_BYTES * task.elements), task.peers, overlap=False)

    def sends(session: str, to: str, message: Message, payload: Payload = None) -> None:
        if isinstance(message, Meet) and message.ballot not in met:
            met.add(message.ballot)
            journal.note("met", step=shell.machine.log.tip.step + 1)
        send(session, to, message, payload)

    def puts(machine: LogPeer, action: Action) -> None:
        if isinstance(action, Apply):
            header = action.entry.header
            brought = sum(1 for one in header.members if one.weight)
            excluded = sum(len(one.chunks) for one in header.exclusions)
            journal.note("has", step=header.step, members=brought, excluded=excluded)
        put(machine, action)

    def plans(chunks: int, members: Sequence[MemberProfile]) -> Planned:
        head = shell.machine.head
        assert head is not None
        planned = plan_round(step, chunks, members)
        ids = [json.loads(task.file("here", number).read_text())[0] for number in range(task.peers)]
        parts = {ids.index(part.reducer.partition(".")[0]): part.count / chunks for part in planned.parts}
        journal.note("planned", step=head.step + 1, able=sum(one.reachable for one in members), parts=parts)
        return Planned(planned.parts)

    connection.send, shell.stepping.put = sends, puts  # type: ignore[method-assign, assignment]
    assert isinstance(shell.machine, LogPeer)
    shell.machine.convening._plan = plans
