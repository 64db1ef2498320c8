"""What peers of benchmarks on hosts of their own have in common: a task, a journal, a membership, made-up gradients."""

import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from averaging.log.header import Ballot
from averaging.optimizer import CollaborativeOptimizer
from averaging.protocol.messages import Meet, Message
from averaging.shell.connection import Membership
from averaging.transport.stream import Payload
from swarm.dht.node import Network, addresses, join_dht
from swarm.files import write_file
from swarm.identity import load_identity
from swarm.run_file import RunFile
from tests.support.hosts import move_to
from tests.support.passes import numbered_gate

POLL = 0.02  # seconds
LAST_FETCHES = 5.0  # seconds in which others may still fetch the last update


@dataclass(frozen=True)
class HostedTask:
    """What one peer is asked to do; the first one is the coordinator."""

    folder: str
    number: int
    namespace: str  # see `tests.support.hosts`
    address: str  # of the host, or of its router
    known: tuple[str, ...]  # addresses to join by

    def file(self, name: str, number: int | None = None) -> Path:
        """A file of a peer."""
        return Path(self.folder) / f"{name}-{self.number if number is None else number}"

    @property
    def last_words(self) -> str:
        """The end of what it has printed."""
        return self.file("said").read_text()[-2000:]

    def events(self, what: str) -> list[dict[str, Any]]:
        """What it has written down of one kind; in each `at`, seconds of the machine's monotonic clock."""
        file = self.file("events")
        lines = file.read_text().rpartition("\n")[0].splitlines() if file.exists() else []
        return [one for one in map(json.loads, lines) if one["what"] == what]

    def peer_ids(self, peers: int) -> list[str]:
        """Of all peers, in their order; each is in its file `here`."""
        return [json.loads(self.file("here", number).read_text())[0] for number in range(peers)]


class Journal:
    """A file of events, which several threads write."""

    def __init__(self, path: Path):
        self._file, self._lock = path.open("a"), threading.Lock()

    def note(self, what: str, **values: object) -> None:
        """Something has happened now."""
        with self._lock:
            self._file.write(json.dumps({"what": what, "at": time.monotonic(), **values}) + "\n")
            self._file.flush()


def membership(
    task: HostedTask, run: RunFile, *, port: int = 0, client_mode: bool = False, **averaging: int
) -> Membership:
    """On its host, in the DHT.

    Args:
        averaging: fields of that section of the run file which are other than in `run`.
    """
    move_to(task.namespace)
    torch.set_num_threads(1)
    identity = load_identity(task.file("key"))
    gate, authority = numbered_gate(Path(task.folder), run.name, identity, task.number)
    network = Network(task.known, listen=(f"/ip4/{task.address}/tcp/{port}",), client_mode=client_mode)
    return Membership(
        run.model_copy(update={"averaging": run.averaging.model_copy(update=averaging)}),
        "fingerprint",
        join_dht(run.name, identity, network, gate),
        identity,
        gate,
        authority=authority,
        folder=None if task.known else task.file("log"),
    )


def is_here(task: HostedTask, member: Membership, *, client_mode: bool = False) -> None:
    """Write down by which id and addresses others find it."""
    known = [] if client_mode else addresses(member.dht)
    write_file(task.file("here"), json.dumps([str(member.dht.peer_id), known]))


def wait_until(happened: Callable[[], bool]) -> None:
    """Look every `POLL` seconds."""
    while not happened():
        time.sleep(POLL)


def note_meetings(optimizer: CollaborativeOptimizer, journal: Journal) -> None:
    """Write down when this peer opens a ballot: `met`, with the global step that it is for."""
    connection, machine, met = optimizer._connection, optimizer._shell.machine, set[Ballot]()
    send = connection.send

    def sends(session: str, to: str, message: Message, payload: Payload = None) -> None:
        if isinstance(message, Meet) and message.ballot not in met:
            met.add(message.ballot)
            journal.note("met", step=machine.log.tip.step + 1)
        send(session, to, message, payload)

    connection.send = sends  # type: ignore[method-assign]


def bring_samples(
    task: HostedTask, optimizer: CollaborativeOptimizer, parameter: torch.nn.Parameter, last: int
) -> None:
    """Bring one sample to each global step until the last one, as on a line that nobody has measured yet."""
    line = optimizer._connection._line
    for direction in (line.upload, line.download):
        direction.meter._best.clear()  # it was another line until now
    optimizer._shell.machine.session.bandwidth = None
    begun, source = -1, torch.Generator().manual_seed(task.number)  # chunks that are alike would be sent once
    while optimizer.step < last:
        optimizer.check()
        if optimizer.step > begun and optimizer.trains:
            begun = optimizer.begin_batch()
            parameter.grad = 1e-3 * torch.randn(parameter.shape, generator=source)
            optimizer.end_batch(1)
        time.sleep(POLL)
    time.sleep(LAST_FETCHES)
