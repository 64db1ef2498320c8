"""Samples a second of a swarm whose peers find their roles, and of assignments of roles that one could type in.

    python -m benchmarks.roles [--every] [--turns 2] [--json FILE]

Three peers, each on a host of its own (a network namespace, whose cable carries so much up and so much down), average
gradients of 2,400,000 numbers, a byte each. How fast they compute is made up: they sleep for so long. Needs root, `ip`
and `tc`. The fastest processor is behind the thinnest line and the slowest one, the coordinator's, on the fattest.

Every peer can train, average, or both: 27 assignments, of which those in which no peer trains or none averages are
none. The swarm takes turns between the roles that it finds by itself and some of them, or with `--every` all. How the
vector is dealt out to those that average is our plan in any case. What counts: the roles that the swarm finds are as
good as the best assignment; medians of the turns. Where averaging takes longer than the target batch, samples go on
adding up; how many there would be if each step had its target batch is told, too. A step takes at most 12.5 s.
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

from benchmarks.roles.worker import BATCH, Given, Phase, Roles, Task, work
from benchmarks.support import command
from benchmarks.support.hosted_peer import HostedTask
from benchmarks.support.hosted_peers import BenchmarkFailed, start_peers, wait_for
from swarm.files import write_file
from tests.support.forked import Forked
from tests.support.hosts import NoHosts, made_hosts
from tests.support.passes import user_of


@dataclass(frozen=True)
class Volunteer:
    """One peer."""

    name: str
    speed: float  # samples a second
    down: float  # Mbit/s
    up: float


VOLUNTEERS = (Volunteer("host", 8, 100, 100), Volunteer("GPU", 60, 10, 2), Volunteer("laptop", 15, 20, 5))
TRAINS, BOTH, AVERAGES = Given
SOME: tuple[Roles, ...] = (
    (BOTH, TRAINS, TRAINS),
    (BOTH, BOTH, BOTH),
    (AVERAGES, TRAINS, TRAINS),
    (AVERAGES, TRAINS, AVERAGES),
    (BOTH, AVERAGES, TRAINS),
)
FIRST, TURN = 5, 3  # global steps: until lines are known, and in a turn
SETTLING = 1  # first steps of a turn, which do not count


@dataclass(frozen=True)
class Speed:
    """With the roles of some turns, medians of these."""

    samples: float  # a second
    in_batches: float  # samples a second, if every step had its target batch and no more
    step: float  # seconds
    trained: tuple[float, ...]  # share of the steps in which each peer did


def main(
    every: Annotated[bool, typer.Option("--every", help="Try all assignments.")] = False,
    turns: Annotated[int, typer.Option(min=1, help="Of each assignment; medians count.")] = 2,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the figures to this file.")] = None,
) -> None:
    """Measure, print a table, and write the JSON file if one is asked for."""
    with tempfile.TemporaryDirectory(prefix="sahaj-roles-") as folder:
        found = measure(Path(folder), all_assignments() if every else SOME, turns)
    if json_file:
        write_file(json_file, json.dumps({name: asdict(one) for name, one in found.items()}, indent=2) + "\n")
    table = Table("", "samples a second", "in target batches", "seconds of a step", title="Roles")
    for name, one in found.items():
        table.add_row(name, f"{one.samples:.1f}", f"{one.in_batches:.1f}", f"{one.step:.1f}")
    Console().print(table)


def all_assignments() -> tuple[Roles, ...]:
    """Those in which some peer trains and some peer averages."""
    every = itertools.product(Given, repeat=len(VOLUNTEERS))
    return tuple(roles for roles in every if any(one.trains for one in roles) and any(one.aggregates for one in roles))


def measure(folder: Path, assignments: Sequence[Roles], turns: int) -> dict[str, Speed]:
    """Let a swarm take turns between its own roles and these."""
    takers: list[Roles | None] = [None, *assignments] * turns
    firsts = range(FIRST, FIRST + (SETTLING + TURN) * len(takers), SETTLING + TURN)
    phases = tuple(Phase(roles, first, first + SETTLING + TURN) for roles, first in zip(takers, firsts, strict=True))
    steps = _run(folder, phases)

    def said(roles: Roles | None) -> str:
        if roles is None:
            return "as the swarm finds them"
        return ", ".join(f"{one.name} {role.value}" for one, role in zip(VOLUNTEERS, roles, strict=True))

    return {
        said(roles): _median([_speed(steps, phase) for phase in phases if phase.roles == roles])
        for roles in dict.fromkeys(takers)
    }


def _median(speeds: Sequence[Speed]) -> Speed:
    return Speed(
        round(statistics.median(one.samples for one in speeds), 1),
        round(statistics.median(one.in_batches for one in speeds), 1),
        round(statistics.median(one.step for one in speeds), 2),
        tuple(round(statistics.mean(shares), 2) for shares in zip(*(one.trained for one in speeds), strict=True)),
    )


def _run(folder: Path, phases: tuple[Phase, ...]) -> dict[int, dict]:
    """The global steps of a swarm that goes through those phases, as the coordinator has taken them."""
    peers: list[Forked] = []
    names = [one.name for one in VOLUNTEERS]
    try:
        with made_hosts(*names) as hosts:
            for one in VOLUNTEERS:
                hosts.limit(one.name, one.up, one.down)

            def task_of(one: HostedTask) -> Task:
                return Task(**vars(one), speed=VOLUNTEERS[one.number].speed, peers=len(VOLUNTEERS), phases=phases)

            tasks = start_peers(folder, hosts, work, task_of, peers)
            wait_for(tasks[0], peers[0])
            return {one["step"]: one for one in tasks[0].events("applied")}
    except NoHosts as error:
        raise BenchmarkFailed(str(error)) from None
    finally:
        for peer in peers:
            peer.kill_all()


def _speed(steps: dict[int, dict], phase: Phase) -> Speed:
    """What went into the steps of a phase but the first ones, from the end of those to its end."""
    first, counted = phase.first + SETTLING - 1, range(phase.first + SETTLING, phase.end)
    seconds = steps[phase.end - 1]["at"] - steps[first]["at"]
    samples = [steps[step]["samples"] for step in counted]
    shares = [
        sum(bool(one.get(user_of(number))) for one in samples) / len(counted) for number in range(len(VOLUNTEERS))
    ]
    total = sum(sum(one.values()) for one in samples)
    return Speed(total / seconds, len(counted) * BATCH / seconds, seconds / len(counted), tuple(shares))


if __name__ == "__main__":
    command.run(main)
