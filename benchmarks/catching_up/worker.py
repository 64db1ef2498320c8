"""A peer of `benchmarks.catching_up`: it trains with made-up gradients, and writes down what happens, and when."""

import json
import signal
import threading
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from averaging.log.header import Ballot, Entry
from averaging.log.snapshot import Manifest
from averaging.optimizer import CollaborativeOptimizer
from averaging.protocol.actions import Load
from averaging.protocol.messages import Meet, Message
from averaging.shell.connection import Membership
from averaging.transport.stream import Payload
from swarm.dht.node import Network, addresses, join_dht
from swarm.files import write_file
from swarm.identity import load_identity
from swarm.run_file import RunFile
from tests.support.hosts import move_to
from tests.support.passes import numbered_gate

TOKENS = 100  # of a batch
MATRIX = 1000  # elements of a row
POLL = 0.02  # seconds
RUN = RunFile.model_validate(
    {
        "name": "thin",
        "data": {"train": [{"path": "nothing"}]},
        "optimizer": {"learning_rate": 1e-3, "warmup_steps": 1, "total_steps": 100_000},
        "averaging": {"compression": "8bit"},
    }
)


@dataclass(frozen=True)
class Task:
    """What one peer is asked to do."""

    folder: str
    number: int
    namespace: str  # see `tests.support.hosts`
    address: str  # of the host
    known: tuple[str, ...]  # addresses to join by; none: it is the coordinator
    elements: int
    target: int  # masked tokens
    snapshot_every: int
    batch: float  # seconds; 0: it does not train
    waits: bool  # for the file `go`

    def file(self, name: str, number: int | None = None) -> Path:
        """A file of a peer."""
        return Path(self.folder) / f"{name}-{self.number if number is None else number}"

    def events(self, what: str) -> list[dict[str, Any]]:
        """What it has written down of one kind; in each `at`, seconds of the machine's monotonic clock."""
        file = self.file("events")
        lines = file.read_text().rpartition("\n")[0].splitlines() if file.exists() else []
        return [one for one in map(json.loads, lines) if one["what"] == what]


class Journal:
    """A file of events, which several threads write."""

    def __init__(self, path: Path):
        self._file, self._lock = path.open("a"), threading.Lock()

    def note(self, what: str, **values: object) -> None:
        """Something has happened now."""
        with self._lock:
            self._file.write(json.dumps({"what": what, "at": time.monotonic(), **values}) + "\n")
            self._file.flush()


def work(task: Task) -> None:
    """Take part until SIGTERM."""
    asked = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: asked.set())
    move_to(task.namespace)
    torch.set_num_threads(1)
    torch.manual_seed(0)
    parameters = [
        (f"layer.{index}", torch.nn.Parameter(torch.randn(MATRIX, MATRIX) / 30))
        for index in range(task.elements // MATRIX**2)
    ]
    identity = load_identity(task.file("key"))
    gate, authority = numbered_gate(Path(task.folder), RUN.name, identity, task.number)
    journal = Journal(task.file("events"))
    if task.waits:
        write_file(task.file("ready"), "")
        while not Path(task.folder, "go").exists() and not asked.is_set():
            time.sleep(POLL)
    network = Network(initial_peers=task.known, listen=(f"/ip4/{task.address}/tcp/0",))
    dht = join_dht(RUN.name, identity, network, gate)
    told = {"target_batch_size": task.target, "snapshot_every": task.snapshot_every}
    membership = Membership(
        RUN.model_copy(update={"averaging": RUN.averaging.model_copy(update=told)}),
        "fingerprint",
        dht,
        identity,
        gate,
        is_coordinator=not task.known,
        authority=authority,
        folder=None if task.known else task.file("log"),
    )
    optimizer = _optimizer(task, membership, parameters, journal)
    write_file(task.file("here"), json.dumps([str(dht.peer_id), addresses(dht)]))
    _train(task, optimizer, parameters, journal, asked)
    optimizer.shutdown()
    dht.shutdown()


def _optimizer(
    task: Task, membership: Membership, parameters: list[tuple[str, torch.nn.Parameter]], journal: Journal
) -> CollaborativeOptimizer:
    """One that writes down what it applies, what it loads, and when it opens a ballot."""

    def applied(entry: Entry, *_: object) -> None:
        header = entry.header
        weights = {one.user: one.weight for one in header.members if one.weight}
        excluded = sum(len(one.chunks) for one in header.exclusions)
        journal.note("applied", step=header.step, weights=weights, excluded=excluded)

    optimizer = CollaborativeOptimizer(membership, parameters, applied)
    shell, connection = optimizer._shell, optimizer._connection
    stepping, exchange = shell.stepping, shell._exchange
    loaded, apply, keep, send = stepping._load, shell.replay.apply, exchange._keeps_chunk, connection.send
    fetched, met = Counter[str](), set[Ballot]()

    def loads(load: Load) -> None:
        size = sum(len(shell.store.get(one) or b"") for one in set(shell.replay.manifest(load.snapshot).chunks))
        journal.note("fetched", step=load.entries[-1].header.step, snapshot=size, bytes=fetched["bytes"])
        loaded(load)

    def applies(entry: Entry) -> Manifest | None:
        began = time.monotonic()
        made = apply(entry)
        journal.note("stepped", step=entry.header.step, seconds=time.monotonic() - began, bytes=fetched["bytes"])
        return made

    def keeps(digest: str, content: bytes, now: float) -> bool:
        fetched["bytes"] += len(content)
        if optimizer.step < 0:
            journal.note("received", bytes=fetched["bytes"])
        return keep(digest, content, now)

    def sends(session: str, to: str, message: Message, payload: Payload = None) -> None:
        if isinstance(message, Meet) and message.ballot not in met:
            met.add(message.ballot)
            journal.note("met", step=shell.machine.log.tip.step)
        send(session, to, message, payload)

    stepping._load, shell.replay.apply, exchange._keeps_chunk = loads, applies, keeps  # type: ignore[method-assign]
    connection.send = sends  # type: ignore[method-assign]
    return optimizer


def _train(
    task: Task,
    optimizer: CollaborativeOptimizer,
    parameters: list[tuple[str, torch.nn.Parameter]],
    journal: Journal,
    asked: threading.Event,
) -> None:
    generator = torch.Generator().manual_seed(task.number)
    noise = [torch.randn(one.shape, generator=generator) / 1000 for _, one in parameters]
    due = time.monotonic()
    while not asked.is_set():
        optimizer.check()
        if not task.batch or not optimizer.trains:
            asked.wait(POLL)
            continue
        due = max(due, time.monotonic() - task.batch / 2) + task.batch  # what end and beginning take is a part of it
        step = optimizer.begin_batch()
        scale = 0.5 + torch.rand(1, generator=generator)  # no update has the bytes of another
        for (_, one), gradient in zip(parameters, noise, strict=True):
            one.grad = gradient * scale
        if asked.wait(max(0.0, due - time.monotonic())):
            break
        ended = time.monotonic()
        counts = optimizer.end_batch(TOKENS, samples=TOKENS)
        journal.note("batch", at=ended, step=step, counts=counts)
