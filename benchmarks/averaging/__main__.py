"""Seconds of a round of averaging between real peers whose lines differ, by three rules who reduces what.

    python -m benchmarks.averaging [--sets homogeneous --sets mixed --sets firewalled] [--rounds 3]
                                   [--megabytes 8] [--json FILE]

Eight trainers, one of them the coordinator, each on a host of its own (a network namespace, whose cable carries so much
up and so much down), take global steps; each brings one sample to each. Needs root, `ip` and `tc`. A round lasts from
the first word of the convener to the moment at which the last peer has the committed header with all of its update.
Rules, in one run:

- *equal*: all that can be reached reduce as much as the others;
- *hivemind*: its `load_balance_peers`, which is told the true upload of each line;
- *ours*: `averaging/load_balancing/plan.py`. Nothing is typed: the rounds before have measured the lines;
- *killed*: ours, in a round in whose middle the process of a reducer is killed, with the largest part of those that are
  not the coordinator's; for the peers that are left;
- *bound*: what the linear program predicts for the true lines, without headers, latency or lost packets.

What counts: on lines alike, ours within 5 % of hivemind's; on mixed lines at most 1.15 of the bound and at least 1.4
times as fast as equal parts; with a reducer killed at most 1.5 times as long; no round leaves out a peer that lives.
Rounds without all peers are shorter: they are counted as `short`, and left out of the medians.
"""

import json
import statistics
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from averaging.bandwidth import MEGABIT
from averaging.load_balancing.plan import GlobalStep, Node
from averaging.reduce.grid import Grid
from benchmarks.averaging.worker import ELEMENT_BYTES, ROW, RULES, WARM_UP, Task, work
from benchmarks.linear_program import round_rate
from benchmarks.plan import LINES, lines_of
from benchmarks.support import command
from benchmarks.support.hosted_peer import HostedTask
from benchmarks.support.hosted_peers import BenchmarkFailed, has_all, seconds_of_round, start_peers, wait_among
from swarm.files import write_file
from tests.support.forked import Forked
from tests.support.hosts import NoHosts, made_hosts

MIXED = sorted(LINES * 2, reverse=True)
# Mbit/s down and up, and how many of the last ones are in client mode
SETS = {"homogeneous": ([(5, 5)] * 8, 0), "mixed": (MIXED, 0), "firewalled": (MIXED, 5)}
MEGABYTES = 8.0  # an ALBERT of 12 million parameters has 12 in 8 bits
STRUCK = 0.5  # of a usual round's seconds, after which a reducer is killed
ROUND, START = 300.0, 120.0  # seconds that a round may take, and the start of all peers
POLL = 0.1  # seconds


@dataclass(frozen=True)
class Figures:
    """Of a set of peers; seconds of a round, medians."""

    equal: float
    hivemind: float
    ours: float
    killed: float
    bound: float
    excluded: int  # pieces of living peers that are in no mean, in all rounds that count
    rounds: dict[str, list[float]]  # by rule
    exclusions: list[int]  # by global step, from the first one
    short: int  # rounds without all peers, which are in no median
    measured_uploads: list[float]  # by the peers themselves, Mbit/s
    parts: dict[str, float]  # by the number of the peer: of the vector, by ours
    killed_part: float  # of the vector


def main(
    sets: Annotated[list[str] | None, typer.Option(help="Some of homogeneous, mixed and firewalled.")] = None,
    rounds: Annotated[int, typer.Option(min=1, help="By each rule; the median counts.")] = 3,
    megabytes: Annotated[float, typer.Option(min=0.5, help="Of the vector as it travels.")] = MEGABYTES,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the figures to this file.")] = None,
) -> None:
    """Measure, print a table, and write the JSON file if one is asked for."""
    found = {}
    for name in sets or SETS:
        if name not in SETS:
            raise BenchmarkFailed(f"there is no set {name}, only {', '.join(SETS)}")
        with tempfile.TemporaryDirectory(prefix="sahaj-averaging-") as folder:
            elements = round(megabytes * 1e6 / ELEMENT_BYTES / ROW) * ROW
            found[name] = measure(Path(folder), *SETS[name], rounds, elements)
        Console(stderr=True).print(name, asdict(found[name]))
    columns = (*RULES, "killed", "bound", "excluded", "short")
    table = Table("", *columns, title="Seconds of a round")
    for name, one in found.items():
        table.add_row(name, *(f"{getattr(one, column):g}" for column in columns))
    Console().print(table)
    if json_file:
        write_file(json_file, json.dumps({name: asdict(one) for name, one in found.items()}, indent=2) + "\n")


def measure(folder: Path, lines: list[tuple[int, int]], clients: int, rounds: int, elements: int) -> Figures:
    """Let peers with these lines, the last ones in client mode, average a vector by each rule."""
    names = [f"peer{number}" for number in range(len(lines))]
    uploads = tuple(up if number < len(lines) - clients else 0.0 for number, (_, up) in enumerate(lines))
    peers: list[Forked] = []
    try:
        with made_hosts(*names) as hosts:

            def task_of(one: HostedTask) -> Task:
                return Task(**vars(one), uploads=uploads, rounds=rounds, elements=elements)

            tasks = start_peers(folder, hosts, work, task_of, peers)
            wait_among(tasks, peers, lambda: all(task.file("ready").exists() for task in tasks), START)
            for name, (down, up) in zip(names, lines, strict=True):  # only now: loading the first state is no round
                hosts.limit(name, up, down)
            (folder / "go").touch()
            victim = _kill_a_reducer(tasks, peers, rounds)
            living = [task for task in tasks if task.number != victim]
            wait_among(
                living, [peers[task.number] for task in living], lambda: has_all(living, tasks[0].last_step), ROUND
            )
            return _figures(tasks, victim, lines, rounds)
    except NoHosts as error:
        raise BenchmarkFailed(str(error)) from None
    finally:
        for peer in peers:
            peer.kill_all()


def _kill_a_reducer(tasks: list[Task], peers: list[Forked], rounds: int) -> int:
    """Wait for the last round, and kill in its middle; returns the number of the peer."""
    last = tasks[0].last_step
    steps = ROUND * (WARM_UP + rounds * len(RULES))
    wait_among(tasks, peers, lambda: any(one["step"] == last for one in tasks[0].events("planned")), steps)
    usual = statistics.median(seconds_of_round(tasks, step) for step in range(last - rounds, last))
    parts = {int(number): part for number, part in tasks[0].events("planned")[-1]["parts"].items() if number != "0"}
    victim = max(parts, key=lambda number: parts[number])
    time.sleep(max(0.0, tasks[0].events("met")[-1]["at"] + STRUCK * usual - time.monotonic()))
    peers[victim].kill_all()
    return victim


def _figures(tasks: list[Task], victim: int, lines: list[tuple[int, int]], rounds: int) -> Figures:
    last = tasks[0].last_step
    living = [task for task in tasks if task.number != victim]
    headers = tasks[0].events("has")
    full = {one["step"] for one in headers if WARM_UP < one["step"] < last and one["members"] == len(tasks)}
    by_rule = {
        rule: [seconds_of_round(tasks, step) for step in sorted(full) if tasks[0].rule(step) == rule] for rule in RULES
    }
    if not all(by_rule.values()):
        raise BenchmarkFailed(f"some rule had no round with all peers: {by_rule}")
    planned = {one["step"]: one["parts"] for one in tasks[0].events("planned")}
    grid = Grid(tasks[0].elements)
    peers = [
        Node(1.0, up * MEGABIT, down * MEGABIT, task.client_mode) for task, (down, up) in zip(tasks, lines, strict=True)
    ]
    true = lines_of(peers, GlobalStep(grid.count, float(ELEMENT_BYTES * grid.elements), samples=1.0))
    return Figures(
        **{rule: round(statistics.median(seconds), 2) for rule, seconds in by_rule.items()},
        killed=seconds_of_round(living, last),
        bound=round(1.0 / round_rate(true, np.ones(len(tasks), dtype=np.bool_)), 2),
        excluded=sum(one["excluded"] for one in headers if one["step"] in full),
        rounds=by_rule,
        exclusions=[one["excluded"] for one in headers],
        short=last - 1 - WARM_UP - len(full),
        measured_uploads=[round(task.events("has")[-1]["upload"] or 0.0, 2) for task in tasks],
        parts={number: round(part, 3) for number, part in planned[last - 1].items()},
        killed_part=round(planned[last][str(victim)], 3),
    )


if __name__ == "__main__":
    command.run(main)
