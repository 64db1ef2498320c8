"""Seconds of a round of averaging with nine of twelve peers behind routers, who open ways to each other or do not.

    python -m benchmarks.nat [--sets cones --sets symmetric] [--rounds 3] [--megabytes 8] [--json FILE]

Twelve trainers, one of them the coordinator, each on a host of its own (a network namespace) whose line carries 20
Mbit/s down and 10 up. Three of them can be reached; nine are behind routers of their own, three of each kind
(`tests/support/routers.py`), and count as unreachable. Needs root, `ip`, `tc` and `iptables`. Two swarms, one after the
other:

- *with*: as volunteers' peers do, those behind routers open ways to each other, and reduce where all others have a way;
- *without*: the coordinator speaks TCP alone. Nobody learns where it is seen, so all nine are in client mode for good.

A round lasts from the first word of the convener to the moment at which the last peer has the committed header with all
of its update; medians. `able` is the number of peers to which all others have a way, `opened` the seconds until all
ways were there that the kinds of routers allow, from the start of the last peer on. What counts: a round with ways
takes at most 0.6 of the time that it takes without.
"""

import json
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from benchmarks.averaging.worker import ELEMENT_BYTES, ROW
from benchmarks.nat.worker import Task, work
from benchmarks.support import command
from benchmarks.support.hosted_peer import HostedTask
from benchmarks.support.hosted_peers import BenchmarkFailed, has_all, seconds_of_round, start_peers, wait_among
from swarm.files import write_file
from tests.support.forked import Forked
from tests.support.hosts import NoHosts, made_hosts
from tests.support.routers import Nat

SETS = {
    "cones": (Nat.FULL_CONE, Nat.RESTRICTED, Nat.PORT_RESTRICTED),
    "symmetric": (Nat.FULL_CONE, Nat.PORT_RESTRICTED, Nat.SYMMETRIC),
}
PUBLIC, OF_A_KIND = 3, 3  # peers
DOWN, UP = 20.0, 10.0  # Mbit/s
MEGABYTES = 8.0
WARM_UP = 2  # global steps before those that count: lines are measured in them
ROUND, START, OPENING = 300.0, 180.0, 120.0  # seconds that a round may take, the start of all peers, and all ways
POLL = 0.1  # seconds


@dataclass(frozen=True)
class Figures:
    """Of one swarm."""

    round: float  # seconds, median
    rounds: list[float]
    able: int  # peers that could reduce in the last round
    reducing: int  # that did
    share_able: float  # of all peers
    opened: float | None  # seconds until all ways were there; None: some never were
    excluded: int  # pieces that are in no mean, in the rounds that count
    short: int  # rounds without all peers, which do not count


def main(
    sets: Annotated[list[str] | None, typer.Option(help="Some of cones and symmetric.")] = None,
    rounds: Annotated[int, typer.Option(min=1, help="In each swarm; the median counts.")] = 3,
    megabytes: Annotated[float, typer.Option(min=0.5, help="Of the vector as it travels.")] = MEGABYTES,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the figures to this file.")] = None,
) -> None:
    """Measure, print a table, and write the JSON file if one is asked for."""
    found: dict[str, dict[str, object]] = {}
    table = Table("", "able", "reducing", "seconds of a round", "of those without", title="Behind routers")
    for name in sets or SETS:
        if name not in SETS:
            raise BenchmarkFailed(f"there is no set {name}, only {', '.join(SETS)}")
        both = [measure(SETS[name], opens_ways, rounds, megabytes) for opens_ways in (True, False)]
        ratio = round(both[0].round / both[1].round, 3)
        found[name] = {"with": asdict(both[0]), "without": asdict(both[1]), "ratio": ratio}
        for how, one, part in zip(("with", "without"), both, (f"{ratio:g}", ""), strict=True):
            table.add_row(f"{name}, {how}", f"{one.able} of {peers()}", str(one.reducing), f"{one.round:g}", part)
    Console().print(table)
    if json_file:
        write_file(json_file, json.dumps(found, indent=2) + "\n")


def peers() -> int:
    """In a swarm."""
    return PUBLIC + OF_A_KIND * 3


def meets(one: Nat, other: Nat) -> bool:
    """Whether calls of two peers behind such routers can meet (RFC 5128)."""
    strict = {Nat.PORT_RESTRICTED, Nat.SYMMETRIC}
    return not (Nat.SYMMETRIC in (one, other) and {one, other} <= strict)


def measure(kinds: Sequence[Nat], opens_ways: bool, rounds: int, megabytes: float) -> Figures:
    """Let a swarm average a vector of so many megabytes."""
    elements = round(megabytes * 1e6 / ELEMENT_BYTES / ROW) * ROW
    names = [f"peer{number}" for number in range(peers())]
    behind = [kind for kind in kinds for _ in range(OF_A_KIND)]
    routers = dict(zip(names[PUBLIC:], behind, strict=True))
    running: list[Forked] = []
    try:
        with tempfile.TemporaryDirectory(prefix="sahaj-nat-") as folder, made_hosts(*names, routers=routers) as hosts:

            def task_of(one: HostedTask) -> Task:
                return Task(
                    **vars(one),
                    behind_router=names[one.number] in routers,
                    opens_ways=opens_ways,
                    peers=len(names),
                    steps=WARM_UP + rounds,
                    elements=elements,
                )

            tasks = start_peers(Path(folder), hosts, work, task_of, running)
            began = time.monotonic()
            wait_among(tasks, running, lambda: all(task.file("ready").exists() for task in tasks), START)
            opened = _open_ways(tasks, behind, began) if opens_ways else None
            for name in names:
                hosts.limit(name, UP, DOWN)
            Path(folder, "go").touch()
            last = tasks[0].steps
            wait_among(tasks, running, lambda: has_all(tasks, last), ROUND * last)
            return _figures(tasks, opened)
    except NoHosts as error:
        raise BenchmarkFailed(str(error)) from None
    finally:
        for peer in running:
            peer.kill_all()


def _open_ways(tasks: Sequence[Task], behind: Sequence[Nat], began: float) -> float | None:
    """Seconds until all ways are there that can be."""
    ways = {
        task.number: PUBLIC + sum(meets(kind, other) for other in behind) - 1 + (kind is Nat.SYMMETRIC)
        for task, kind in zip(tasks[PUBLIC:], behind, strict=True)
    }

    def have_all() -> bool:
        told = {task.number: task.events("ways") for task in tasks[PUBLIC:]}
        return all(events and events[-1]["count"] >= ways[number] for number, events in told.items())

    while time.monotonic() < began + OPENING:
        if have_all():
            return round(time.monotonic() - began, 1)
        time.sleep(POLL)
    return None


def _figures(tasks: Sequence[Task], opened: float | None) -> Figures:
    headers = [one for one in tasks[0].events("has") if one["step"] > WARM_UP]
    full = [one for one in headers if one["members"] == len(tasks)]
    if not full:
        raise BenchmarkFailed("no round had all peers")
    seconds = [seconds_of_round(tasks, one["step"]) for one in full]
    planned = tasks[0].events("planned")[-1]
    return Figures(
        round=round(statistics.median(seconds), 2),
        rounds=seconds,
        able=planned["able"],
        reducing=len(planned["parts"]),
        share_able=round(planned["able"] / len(tasks), 3),
        opened=opened,
        excluded=sum(one["excluded"] for one in full),
        short=len(headers) - len(full),
    )


if __name__ == "__main__":
    command.run(main)
