"""One peer of `benchmarks.averaging`: a trainer on a host of its own that brings one sample to each global step."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch

from averaging.load_balancing.plan import GlobalStep, plan_round, runs, whole_parts
from averaging.log.header import peer_of
from averaging.optimizer import CollaborativeOptimizer
from averaging.protocol.actions import Action, Apply
from averaging.protocol.peer import LogPeer
from averaging.protocol.rounds.parts import MemberProfile, Planned
from benchmarks.support.hosted_peer import (
    HostedTask,
    Journal,
    bring_samples,
    is_here,
    membership,
    note_meetings,
    wait_until,
)
from swarm.leaving import end_process
from swarm.run_file import RunFile

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
class Task(HostedTask):
    """What one peer is asked to do."""

    uploads: tuple[float, ...]  # of all peers, Mbit/s; 0 in client mode: what hivemind's rule is told
    rounds: int  # by each rule
    elements: int  # of the vector

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
    member = membership(task, RUN, client_mode=task.client_mode, target_batch_size=len(task.uploads))
    parameters = [("matrix", torch.nn.Parameter(torch.zeros(task.elements // ROW, ROW)))]
    journal = Journal(task.file("events"))
    optimizer = CollaborativeOptimizer(member, parameters)
    _note_rounds(task, optimizer, journal)
    is_here(task, member, client_mode=task.client_mode)
    wait_until(lambda: optimizer.step >= 0)
    task.file("ready").touch()
    wait_until(Path(task.folder, "go").exists)
    bring_samples(task, optimizer, parameters[0][1], task.last_step)
    end_process()


def _note_rounds(task: Task, optimizer: CollaborativeOptimizer, journal: Journal) -> None:
    """Write down when a round begins, how it is planned, and when this peer has all of it; plan by the rules."""
    note_meetings(optimizer, journal)
    shell = optimizer._shell
    put = shell.stepping.put
    step = GlobalStep(shell.settings.chunks, float(ELEMENT_BYTES * task.elements), len(task.uploads), overlap=False)

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

    shell.stepping.put = puts  # type: ignore[method-assign, assignment]
    assert isinstance(shell.machine, LogPeer)
    shell.machine.convening._planner = plans


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
    ids = task.peer_ids(len(task.uploads))
    return {one.session: ids.index(peer_of(one.session)) for one in members}
