"""One peer of `benchmarks.roles`: on a host of its own, it takes the roles that the schedule says, step by step."""

import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from enum import Enum
from pathlib import Path

import torch
from hivemind.averaging.group_info import GroupInfo

import trainer.averaging.optimizer
from swarm.dht import Network, addresses, join_dht
from swarm.durable import write_file
from swarm.identity import load_identity
from swarm.run_file import RunFile, load_run
from tests.faults.hosts import move_to
from trainer.averaging.gradients import SwarmGradientAverager
from trainer.averaging.optimizer import SwarmOptimizer, make_optimizer
from trainer.averaging.sharing import Sharing, shared
from trainer.averaging.told import read_told
from trainer.leaving import end_process

ELEMENTS = 2_400_000  # of a vector that travels in one byte each
BATCHES_PER_SECOND = 4.0
POLL = 0.05  # seconds


class Given(str, Enum):
    """A role that somebody has typed in."""

    TRAINER = "trains"
    BOTH = "trains and averages"
    AGGREGATOR = "averages"

    @property
    def trains(self) -> bool:
        """Whether the peer computes gradients."""
        return self is not Given.AGGREGATOR

    @property
    def aggregates(self) -> bool:
        """Whether the peer may average a part."""
        return self is not Given.TRAINER


Roles = tuple[Given, ...]  # by peer


@dataclass(frozen=True)
class Phase:
    """Some global steps in which peers keep their roles."""

    roles: Roles | None  # None: as the averager finds them
    first: int  # global step
    end: int  # the first step of the next phase


@dataclass(frozen=True)
class Ended:
    """A global step of one peer."""

    step: int
    samples: int  # that the peer brought
    at: float  # seconds of the machine's monotonic clock


@dataclass(frozen=True)
class Task:
    """What one peer is asked to do."""

    folder: str
    number: int
    namespace: str  # see `tests.faults.hosts`
    speed: float  # samples a second
    peers: int
    phases: tuple[Phase, ...]
    known: tuple[str, ...]  # addresses

    def file(self, name: str, number: int | None = None) -> Path:
        """A file of a peer."""
        return Path(self.folder) / f"{name}-{self.number if number is None else number}"

    def phase(self, step: int) -> Phase:
        """To which a global step belongs; before the first one and after the last one peers find their roles."""
        return next((one for one in self.phases if one.first <= step < one.end), Phase(None, 0, 0))

    def others_are_done(self) -> bool:
        """Whether this peer would wait for the last steps alone."""
        return any(self.file("done", number).exists() for number in range(self.peers))

    def read_ended(self) -> list[Ended]:
        """The global steps that the peer has written down."""
        file = self.file("steps")
        return [Ended(**json.loads(line)) for line in file.read_text().splitlines()] if file.exists() else []


def work(task: Task) -> None:
    """Train with made-up gradients, at the speed that the task says, until the last phase has ended."""
    move_to(task.namespace)
    run = load_run(Path(task.folder) / "run.yaml")
    identity = load_identity(task.file("key"))
    dht = join_dht(run.name, identity, Network(initial_peers=task.known, listen=("/ip4/0.0.0.0/tcp/0",)))
    own = [one for one in addresses(dht) if "/127." not in one]
    write_file(task.file("here"), json.dumps([str(dht.peer_id), own]))
    while not all(task.file("here", number).exists() for number in range(task.peers)):
        time.sleep(POLL)
    trainer.averaging.optimizer.SwarmGradientAverager = _averager(task)  # type: ignore[misc]
    trainer.averaging.optimizer.SwarmOptimizer = _optimizer(task)  # type: ignore[misc]
    parameter = torch.nn.Parameter(torch.zeros(ELEMENTS))
    optimizer = make_optimizer(run, dht, identity, [{"params": [parameter], "weight_decay": 0.0}])
    _train(task, run, optimizer, parameter)
    time.sleep(2.0)  # others may still be in the last round
    task.file("done").touch()
    optimizer.shutdown()
    dht.shutdown()
    end_process()


def _train(task: Task, run: RunFile, optimizer: SwarmOptimizer, parameter: torch.nn.Parameter) -> None:
    batch = max(1, round(task.speed / BATCHES_PER_SECOND))
    while optimizer.local_epoch < run.optimizer.total_steps and not task.others_are_done():
        if optimizer.trains:
            time.sleep(batch / task.speed)
            parameter.grad = torch.full_like(parameter, 1e-3)
            optimizer.step(batch)
        else:
            time.sleep(POLL)
            optimizer.poll()
        _write_down(task, optimizer)
    optimizer.finish_round()
    _write_down(task, optimizer)


def _write_down(task: Task, optimizer: SwarmOptimizer) -> None:
    with task.file("steps").open("a") as file:
        for report in optimizer.ended_rounds():
            if report.problem:
                print(report.describe_failure(), flush=True)
            else:
                file.write(json.dumps(asdict(Ended(report.step, report.samples, time.monotonic()))) + "\n")


def _optimizer(task: Task) -> type[SwarmOptimizer]:
    """Trains as the schedule says."""

    class Scheduled(SwarmOptimizer):
        @property
        def computes(self) -> bool:
            begun = hasattr(self, "state_averager")  # asked while it is being made, too
            given = task.phase(self.local_epoch if begun else 0).roles
            return super().computes if given is None else given[task.number].trains

    return Scheduled


def _averager(task: Task) -> type[SwarmGradientAverager]:
    """Averages as the schedule says."""

    class Scheduled(SwarmGradientAverager):
        def _shared(self, kept: GroupInfo) -> Sharing:
            told = [read_told(words) for words in kept.gathered]
            given = task.phase(told[0].step).roles
            if given is None:
                return super()._shared(kept)
            idle = [not given[number].aggregates for number in _numbers(task, kept)]
            return shared(told, idle, self.total_size, self._wire_bytes)

    return Scheduled


def _numbers(task: Task, group: GroupInfo) -> Sequence[int]:
    ids = [json.loads(task.file("here", number).read_text())[0] for number in range(task.peers)]
    return [ids.index(str(peer)) for peer in group.peer_ids]
