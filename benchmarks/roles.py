"""Samples a second of a swarm whose peers find their roles, and of every assignment of roles that one could type in.

    python -m benchmarks.roles [--sets gpu --sets laggard] [--json FILE]

Three peers, each on a host of its own (a network namespace, whose cable carries so much up and so much down), average
real gradients of 600,000 numbers, a byte each. How fast they compute is made up: they sleep for so long. Needs root,
`ip` and `tc`. In *gpu* the fastest processor is behind the thinnest line and the slowest one on the fattest; in
*laggard* all would wait for the gradients of a slow laptop.

Every peer can train, average, or both: 27 assignments, of which those in which nobody trains or nobody averages are
none. One swarm goes through them all, some global steps each, and finds its own roles before the first and after the
last. How the vector is shared among those who average is our plan in any case. What counts: the roles that the swarm
finds are as good as the best assignment.
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
from benchmarks.roles_worker import Ended, Given, Phase, Task, work
from swarm.durable import write_file
from tests.faults.hosts import Hosts, NoHosts, made_hosts
from tests.forked import Forked

RUN = """
name: roles
data: {{train: [{{path: none.txt}}], validation: [{{path: none.txt}}]}}
optimizer: {{total_steps: {steps}, warmup_steps: 1}}
averaging:
  target_batch_size: 200
  matchmaking_time: 1.0
  request_timeout: 0.5
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


GPU, HOST = Volunteer("GPU", 60, 10, 2), Volunteer("host", 8, 100, 100)
SETS = {
    "gpu": (GPU, Volunteer("laptop", 15, 20, 5), HOST),
    "laggard": (GPU, Volunteer("laptop", 6, 5, 1), HOST),
}
FIRST, OURS, GIVEN = 5, 5, 3  # global steps in which lines become known, with our roles, and with given ones
SETTLING = 1  # first steps of a phase, which do not count


@dataclass(frozen=True)
class Figures:
    """Samples a second of the swarm."""

    ours: float  # the mean of both times
    ours_twice: tuple[float, float]
    trained: list[float]  # part of the steps in which each peer did, with our roles
    best: float
    best_roles: str
    all_train: float  # everybody trains and averages
    fixed: dict[str, float]


def main(
    sets: Annotated[list[str] | None, typer.Option(help="Some of gpu and laggard.")] = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the figures to this file.")] = None,
) -> None:
    """Measure, print a table, and write the JSON file if one is asked for."""
    found = {}
    for name in sets or SETS:
        if name not in SETS:
            raise BenchmarkFailed(f"there is no set {name}, only {', '.join(SETS)}")
        with tempfile.TemporaryDirectory(prefix="sahaj-roles-") as folder:
            found[name] = measure(Path(folder), SETS[name])
        Console(stderr=True).print(name, asdict(found[name]))
    table = Table("", "ours", "best assignment", "which", "all train and average", title="Samples a second")
    for name, one in found.items():
        table.add_row(name, f"{one.ours:.1f}", f"{one.best:.1f}", one.best_roles, f"{one.all_train:.1f}")
    Console().print(table)
    if json_file:
        write_file(json_file, json.dumps({name: asdict(one) for name, one in found.items()}, indent=2) + "\n")


def measure(folder: Path, volunteers: Sequence[Volunteer]) -> Figures:
    """Let the swarm go through all assignments, and find its own roles before and after."""
    phases = _phases(len(volunteers))
    (folder / "run.yaml").write_text(RUN.format(steps=phases[-1].end))
    peers: list[Forked] = []
    try:
        with made_hosts(*(one.name for one in volunteers)) as hosts:
            for one in volunteers:
                hosts.limit(one.name, one.up, one.down)
            tasks = _start(folder, hosts, volunteers, phases, peers)
            for task, peer in zip(tasks, peers, strict=True):
                wait_for(task, peer)
            return _figures([task.read_ended() for task in tasks], phases, volunteers)
    except NoHosts as error:
        raise BenchmarkFailed(str(error)) from None
    finally:
        for peer in peers:
            peer.kill()


def _phases(peers: int) -> tuple[Phase, ...]:
    assignments = [
        roles
        for roles in itertools.product(Given, repeat=peers)
        if any(role.trains for role in roles) and any(role.aggregates for role in roles)
    ]
    phases, step = [Phase(None, FIRST, FIRST + OURS)], FIRST + OURS
    for roles in assignments:
        phases.append(Phase(roles, step, step + GIVEN))
        step += GIVEN
    return (*phases, Phase(None, step, step + SETTLING + OURS))


def _start(
    folder: Path, hosts: Hosts, volunteers: Sequence[Volunteer], phases: tuple[Phase, ...], peers: list[Forked]
) -> list[Task]:
    """The first peer, and all others through it."""

    def task_of(number: int, namespace: str, known: tuple[str, ...]) -> Task:
        return Task(str(folder), number, namespace, volunteers[number].speed, len(volunteers), phases, known)

    return start_peers(hosts, work, task_of, peers)


def _figures(ended: list[list[Ended]], phases: Sequence[Phase], volunteers: Sequence[Volunteer]) -> Figures:
    speeds = [_samples_per_second(ended, phase) for phase in phases]
    fixed = {
        ", ".join(f"{one.name} {role.value}" for one, role in zip(volunteers, phase.roles, strict=True)): speed
        for phase, speed in zip(phases, speeds, strict=True)
        if phase.roles is not None
    }
    best = max(fixed, key=lambda name: fixed[name])
    own = [step for phase in phases if phase.roles is None for step in range(phase.first, phase.end)]
    return Figures(
        ours=round((speeds[0] + speeds[-1]) / 2.0, 1),
        ours_twice=(speeds[0], speeds[-1]),
        trained=[round(statistics.mean(one.trained for one in its if one.step in own), 2) for its in ended],
        best=fixed[best],
        best_roles=best,
        all_train=fixed[", ".join(f"{one.name} {Given.BOTH.value}" for one in volunteers)],
        fixed=fixed,
    )


def _samples_per_second(ended: list[list[Ended]], phase: Phase) -> float:
    """What went into the steps of a phase but the first ones, in the time from the end of those to its end.

    A step that nobody tells of (all others had failed in it and took over a state) is not counted.
    """
    of_phase = [one for its in ended for one in its if phase.first + SETTLING - 1 <= one.step < phase.end]
    ends = {step: max(one.at for one in of_phase if one.step == step) for step in {one.step for one in of_phase}}
    if len(ends) < 2:
        return 0.0
    first, *_, last = sorted(ends)
    samples = sum(one.samples for one in of_phase if one.step > first)
    return round(samples / (ends[last] - ends[first]), 1)


if __name__ == "__main__":
    command.run(main)
