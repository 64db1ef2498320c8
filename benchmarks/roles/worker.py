"""One peer of `benchmarks.roles`: it trains at a made-up speed on a host of its own; the coordinator gives roles."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

import torch

from averaging.load_balancing.plan import GlobalStep, plan_round
from averaging.log.header import Entry, peer_of
from averaging.optimizer import CollaborativeOptimizer
from averaging.protocol.rounds.parts import MemberProfile, Planned
from averaging.reduce.gradient_codec import vector_bytes
from averaging.reduce.grid import Grid
from benchmarks.support.hosted_peer import LAST_FETCHES, POLL, HostedTask, Journal, is_here, membership
from swarm.leaving import end_process
from swarm.run_file import RunFile

ELEMENTS = 2_400_000  # of a vector that travels in one byte each, and some
BATCH = 700  # samples; computed in about as many seconds as the GPU needs to send its gradients
BATCHES_PER_SECOND = 4.0
RUN = RunFile.model_validate(
    {
        "name": "roles",
        "data": {"train": [{"path": "nothing"}]},
        "optimizer": {"learning_rate": 1e-3, "warmup_steps": 1, "total_steps": 100_000},
        "averaging": {"compression": "8bit", "target_batch_size": BATCH, "snapshot_every": 50},
    }
)


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
        """Whether the peer may reduce a part."""
        return self is not Given.TRAINER


Roles = tuple[Given, ...]  # by peer


@dataclass(frozen=True)
class Phase:
    """Some global steps in which peers keep their roles."""

    roles: Roles | None  # None: as conveners plan them
    first: int  # global step
    end: int  # the first step of the next phase


@dataclass(frozen=True)
class Task(HostedTask):
    """What one peer is asked to do."""

    speed: float  # samples a second
    peers: int
    phases: tuple[Phase, ...]

    def roles(self, step: int) -> Roles | None:
        """In a global step; before the first phase and after the last one they are planned."""
        return next((one.roles for one in self.phases if one.first <= step < one.end), None)


def work(task: Task) -> None:
    """Train with made-up gradients, at the speed that the task says, until the last phase has ended."""
    member = membership(task, RUN)
    parameter = torch.nn.Parameter(torch.zeros(ELEMENTS // 1000, 1000))
    journal = Journal(task.file("events"))

    def applied(entry: Entry, *_: object) -> None:
        samples = {one.user: one.samples for one in entry.header.members}
        journal.note("applied", step=entry.header.step, samples=samples)

    optimizer = CollaborativeOptimizer(member, [("matrix", parameter)], applied)
    optimizer.computes_at(task.speed)
    optimizer._shell.machine.convening._planner = _planner(task, optimizer)
    is_here(task, member)
    _train(task, optimizer, parameter)
    time.sleep(LAST_FETCHES)
    end_process()


def _train(task: Task, optimizer: CollaborativeOptimizer, parameter: torch.nn.Parameter) -> None:
    batch = max(1, round(task.speed / BATCHES_PER_SECOND))
    seconds, due = batch / task.speed, time.monotonic()
    gradient = torch.full_like(parameter, 1e-3)
    while optimizer.step < task.phases[-1].end:
        optimizer.check()
        if not optimizer.trains:
            time.sleep(POLL)
            continue
        due = max(due, time.monotonic() - seconds / 2) + seconds  # what end and beginning take is a part of it
        optimizer.begin_batch()
        parameter.grad = gradient
        time.sleep(max(0.0, due - time.monotonic()))
        optimizer.end_batch(batch, samples=batch)


def _planner(task: Task, optimizer: CollaborativeOptimizer) -> Any:
    """Parts and roles as the schedule says."""
    grid = Grid(ELEMENTS)
    step = GlobalStep(grid.count, vector_bytes(grid, "8bit"), BATCH)

    def plans(chunks: int, members: Sequence[MemberProfile]) -> Planned:
        head = optimizer._shell.machine.head
        assert head is not None
        now, following = task.roles(head.step + 1), task.roles(head.step + 2)
        ids = task.peer_ids(task.peers)
        numbers = [ids.index(peer_of(one.session)) for one in members]
        allowed = [now is None or now[number].aggregates for number in numbers]
        lines = [replace(one, reachable=may) for one, may in zip(members, allowed, strict=True)]
        planned = plan_round(step, chunks, lines)
        if following is None:
            return replace(plan_round(step, chunks, members), parts=planned.parts)
        idle = [one.session for one, number in zip(members, numbers, strict=True) if not following[number].trains]
        return Planned(planned.parts, tuple(idle))

    return plans
