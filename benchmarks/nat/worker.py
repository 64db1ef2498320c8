"""One peer of `benchmarks.nat`: a trainer on a host of its own that brings one sample a step."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from averaging.load_balancing.plan import GlobalStep, plan_round
from averaging.log.header import peer_of
from averaging.optimizer import CollaborativeOptimizer
from averaging.protocol.actions import Action, Apply
from averaging.protocol.peer import LogPeer
from averaging.protocol.rounds.parts import MemberProfile, Planned
from benchmarks.averaging.worker import ELEMENT_BYTES, ROW, RUN
from benchmarks.support.hosted_peer import (
    POLL,
    HostedTask,
    Journal,
    bring_samples,
    is_here,
    membership,
    note_meetings,
    wait_until,
)
from swarm.leaving import end_process

PORT = 31337


@dataclass(frozen=True)
class Task(HostedTask):
    """What one peer is asked to do; its address is the router's if it is behind one."""

    behind_router: bool
    opens_ways: bool  # else the coordinator speaks TCP alone, and those behind routers are in client mode for good
    peers: int
    steps: int
    elements: int  # of the vector


def work(task: Task) -> None:
    """Take part until the last step."""
    port = PORT if task.opens_ways and not task.known else 0
    member = membership(task, RUN, port=port, client_mode=task.behind_router, target_batch_size=task.peers)
    parameters = [("matrix", torch.nn.Parameter(torch.zeros(task.elements // ROW, ROW)))]
    journal = Journal(task.file("events"))
    optimizer = CollaborativeOptimizer(member, parameters)
    _note_rounds(task, optimizer, journal)
    is_here(task, member, client_mode=task.behind_router)
    wait_until(lambda: optimizer.step >= 0)
    task.file("ready").touch()
    _note_ways(task, optimizer, journal)
    bring_samples(task, optimizer, parameters[0][1], task.steps)
    end_process()


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
    note_meetings(optimizer, journal)
    shell = optimizer._shell
    put = shell.stepping.put
    step = GlobalStep(shell.settings.chunks, float(ELEMENT_BYTES * task.elements), task.peers, overlap=False)

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
        ids = task.peer_ids(task.peers)
        parts = {ids.index(peer_of(part.reducer)): part.count / chunks for part in planned.parts}
        journal.note("planned", step=head.step + 1, able=sum(one.reachable for one in members), parts=parts)
        return Planned(planned.parts)

    shell.stepping.put = puts  # type: ignore[method-assign, assignment]
    assert isinstance(shell.machine, LogPeer)
    shell.machine.convening._planner = plans
