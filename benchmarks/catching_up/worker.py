"""A peer of `benchmarks.catching_up`: it trains with made-up gradients, and writes down what happens, and when."""

import signal
import threading
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import torch

from averaging.log.header import Entry
from averaging.log.snapshot import Manifest
from averaging.optimizer import CollaborativeOptimizer
from averaging.protocol.actions import Load
from averaging.shell.connection import Membership
from benchmarks.support.hosted_peer import POLL, HostedTask, Journal, is_here, membership, note_meetings
from swarm.files import write_file
from swarm.run_file import RunFile

TOKENS = 100  # of a batch
MATRIX = 1000  # elements of a row
RUN = RunFile.model_validate(
    {
        "name": "thin",
        "data": {"train": [{"path": "nothing"}]},
        "optimizer": {"learning_rate": 1e-3, "warmup_steps": 1, "total_steps": 100_000},
        "averaging": {"compression": "8bit"},
    }
)


@dataclass(frozen=True)
class Task(HostedTask):
    """What one peer is asked to do."""

    elements: int
    target: int  # masked tokens
    snapshot_every: int
    batch: float  # seconds; 0: it does not train
    waits: bool  # for the file `go`


def work(task: Task) -> None:
    """Take part until SIGTERM."""
    asked = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: asked.set())
    journal = Journal(task.file("events"))
    if task.waits:
        write_file(task.file("ready"), "")
        while not Path(task.folder, "go").exists() and not asked.is_set():
            time.sleep(POLL)
    member = membership(task, RUN, target_batch_size=task.target, snapshot_every=task.snapshot_every)
    torch.manual_seed(0)
    parameters = [
        (f"layer.{index}", torch.nn.Parameter(torch.randn(MATRIX, MATRIX) / 30))
        for index in range(task.elements // MATRIX**2)
    ]
    optimizer = _optimizer(member, parameters, journal)
    is_here(task, member)
    _train(task, optimizer, parameters, journal, asked)
    optimizer.shutdown()
    member.dht.shutdown()


def _optimizer(
    member: Membership, parameters: list[tuple[str, torch.nn.Parameter]], journal: Journal
) -> CollaborativeOptimizer:
    """One that writes down what it applies, what it loads, and when it opens a ballot."""

    def applied(entry: Entry, *_: object) -> None:
        header = entry.header
        weights = {one.user: one.weight for one in header.members if one.weight}
        excluded = sum(len(one.chunks) for one in header.exclusions)
        journal.note("applied", step=header.step, weights=weights, excluded=excluded)

    optimizer = CollaborativeOptimizer(member, parameters, applied)
    shell = optimizer._shell
    stepping, exchange = shell.stepping, shell._exchange
    loaded, apply, keep = stepping._load, shell.replay.apply, exchange._keeps_chunk
    fetched = Counter[str]()

    def loads(load: Load) -> None:
        size = sum(len(shell.replay.store.get(one) or b"") for one in set(shell.replay.manifest(load.snapshot).chunks))
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

    stepping._load, shell.replay.apply, exchange._keeps_chunk = loads, applies, keeps  # type: ignore[method-assign]
    note_meetings(optimizer, journal)
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
