"""Samples a second of a swarm whose peers find their roles, and of every assignment of roles that one could type in.

    python -m benchmarks.roles [--json FILE]

Three peers, each on a host of its own (a network namespace, whose cable carries so much up and so much down), average
real gradients of 2,400,000 numbers, a byte each. How fast they compute is made up: they sleep for so long. Needs root,
`ip` and `tc`. The fastest processor is behind the thinnest line and the slowest one on the fattest.

Every peer can train, average, or both: 27 assignments, of which those in which nobody trains or nobody averages are
none. One swarm goes through them all, some global steps each; a second one takes turns between the best of them and the
roles that it finds by itself. How the vector is shared among those who average is our plan in any case. What counts:
the roles that the swarm finds are as good as the best assignment; medians of the turns. Where averaging takes longer
than the target batch, samples go on adding up; how many there would be if each step had its target batch is told, too.
"""

import itertools
import json
import statistics
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from benchmarks import command
from benchmarks.hosted_peers import BenchmarkFailed, start_peers, wait_for
from benchmarks.roles_worker import Ended, Given, Phase, Roles, Task, work
from swarm.durable import write_file
from tests.faults.hosts import Hosts, NoHosts, made_hosts
from tests.forked import Forked

RUN = """
name: roles
data: {{train: [{{path: none.txt}}], validation: [{{path: none.txt}}]}}
optimizer: {{total_steps: {steps}, warmup_steps: 1}}
averaging:
  target_batch_size: {batch}
  matchmaking_time: 5.0
  request_timeout: 1.0
  averaging_timeout: 120.0
  chunk_timeout: 30.0
  state_every: 100000
"""


@dataclass(frozen=True)
class Volunteer:
    """One peer."""

    name: str
    speed: float  # samples a second
    down: float  # Mbit/s
    up: float


VOLUNTEERS = (Volunteer("GPU", 60, 10, 2), Volunteer("laptop", 15, 20, 5), Volunteer("host", 8, 100, 100))
BATCH = 700  # samples; computed in as many seconds as the GPU needs to send its gradients
FIRST, GIVEN, TURN = 5, 2, 3  # global steps: until lines are known, with each assignment, and in a turn
SETTLING = 1  # first steps of a phase, which do not count
FINALISTS, TURNS = 2, 3  # assignments that take turns with our roles, and how often


@dataclass(frozen=True)
class Speed:
    """Samples a second."""

    samples: float
    in_batches: float  # if every step had its target batch and no more


@dataclass(frozen=True)
class Figures:
    """What the swarm computed; medians of the turns."""

    ours: Speed
    trained: list[float]  # part of the steps in which each peer did, with our roles
    finalists: dict[str, Speed]
    once: dict[str, Speed]  # every assignment, before the turns


def main(
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the figures to this file.")] = None,
) -> None:
    """Measure, print a table, and write the JSON file if one is asked for."""
    with tempfile.TemporaryDirectory(prefix="sahaj-roles-") as folder:
        found = measure(Path(folder), VOLUNTEERS)
    if json_file:
        write_file(json_file, json.dumps(asdict(found), indent=2) + "\n")
    Console(stderr=True).print(asdict(found))
    table = Table("", "samples a second", "in target batches", title="Roles")
    for name, speed in {"the swarm's own": found.ours, **found.finalists}.items():
        table.add_row(name, f"{speed.samples:.1f}", f"{speed.in_batches:.1f}")
    Console().print(table)


def measure(folder: Path, volunteers: Sequence[Volunteer]) -> Figures:
    """Let a swarm go through all assignments, and another one take turns between the best ones and its own roles."""
    every = [
        roles
        for roles in itertools.product(Given, repeat=len(volunteers))
        if any(role.trains for role in roles) and any(role.aggregates for role in roles)
    ]
    tried = _one_after_the_other(every, GIVEN)
    once = dict(zip(every, _speeds(_run(folder / "once", volunteers, tried), tried), strict=True))
    finalists = sorted(every, key=lambda roles: once[roles].samples, reverse=True)[:FINALISTS]
    takers: list[Roles | None] = [None, *finalists]
    in_turn = [takers[(turn + place) % len(takers)] for turn in range(TURNS) for place in range(len(takers))]
    turns = _one_after_the_other(in_turn, SETTLING + TURN)
    ended = _run(folder / "turns", volunteers, turns)
    speeds = _speeds(ended, turns)
    by_roles = {
        taker: _median([speed for phase, speed in zip(turns, speeds, strict=True) if phase.roles == taker])
        for taker in takers
    }
    own = [step for phase in turns if phase.roles is None for step in range(phase.first, phase.end)]

    def said(roles: Roles) -> str:
        return ", ".join(f"{one.name} {role.value}" for one, role in zip(volunteers, roles, strict=True))

    return Figures(
        ours=by_roles[None],
        trained=[round(sum(one.samples > 0 for one in its if one.step in own) / len(own), 2) for its in ended],
        finalists={said(roles): by_roles[roles] for roles in finalists},
        once={said(roles): speed for roles, speed in once.items()},
    )


def _median(speeds: Sequence[Speed]) -> Speed:
    return Speed(
        statistics.median(one.samples for one in speeds),
        statistics.median(one.in_batches for one in speeds),
    )


def _one_after_the_other(assignments: Sequence[Roles | None], steps: int) -> tuple[Phase, ...]:
    firsts = range(FIRST, FIRST + steps * len(assignments), steps)
    return tuple(Phase(roles, first, first + steps) for roles, first in zip(assignments, firsts, strict=True))


def _run(folder: Path, volunteers: Sequence[Volunteer], phases: tuple[Phase, ...]) -> list[list[Ended]]:
    """The steps of each peer of a swarm that goes through those phases."""
    folder.mkdir()
    (folder / "run.yaml").write_text(RUN.format(steps=phases[-1].end, batch=BATCH))
    peers: list[Forked] = []
    try:
        with made_hosts(*(one.name for one in volunteers)) as hosts:
            for one in volunteers:
                hosts.limit(one.name, one.up, one.down)
            tasks = _start(folder, hosts, volunteers, phases, peers)
            for task, peer in zip(tasks, peers, strict=True):
                wait_for(task, peer)
            return [task.read_ended() for task in tasks]
    except NoHosts as error:
        raise BenchmarkFailed(str(error)) from None
    finally:
        for peer in peers:
            peer.kill()


def _start(
    folder: Path, hosts: Hosts, volunteers: Sequence[Volunteer], phases: tuple[Phase, ...], peers: list[Forked]
) -> list[Task]:
    """The first peer, and all others through it."""

    def task_of(number: int, namespace: str, known: tuple[str, ...]) -> Task:
        return Task(str(folder), number, namespace, volunteers[number].speed, len(volunteers), phases, known)

    return start_peers(hosts, work, task_of, peers)


def _speeds(ended: list[list[Ended]], phases: Sequence[Phase]) -> list[Speed]:
    return [_speed(ended, phase) for phase in phases]


def _speed(ended: list[list[Ended]], phase: Phase) -> Speed:
    """What went into the steps of a phase but the first ones, in the time from the end of those to its end.

    A step that nobody tells of (all others had failed in it and took over a state) is not counted.
    """
    of_phase = [one for its in ended for one in its if phase.first + SETTLING - 1 <= one.step < phase.end]
    ends = {step: max(one.at for one in of_phase if one.step == step) for step in {one.step for one in of_phase}}
    if len(ends) < 2:
        return Speed(0.0, 0.0)
    first, *_, last = sorted(ends)
    seconds = ends[last] - ends[first]
    samples = sum(one.samples for one in of_phase if one.step > first)
    return Speed(round(samples / seconds, 1), round((len(ends) - 1) * BATCH / seconds, 1))


if __name__ == "__main__":
    command.run(main)
