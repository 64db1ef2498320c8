"""Seconds of a round of averaging between real peers whose lines differ, by three rules who averages what.

    python -m benchmarks.averaging [--sets homogeneous --sets mixed --sets firewalled] [--rounds 3]
                                   [--megabytes 8] [--json FILE]

Eight averagers, each on a host of its own (a network namespace, whose cable carries so much up and so much down),
average a vector. Needs root, `ip` and `tc`. Rules, in one run:

- *equal*: everybody who can be reached averages as much as the others;
- *hivemind*: its `load_balance_peers`, which is told the true upload of each line;
- *ours*: `trainer/averaging/sharing.py`. Nothing is typed: the first round has equal parts and measures the lines. It
  is not counted;
- *bound*: what the linear program predicts for the true lines, without headers, latency or lost packets.

What counts: on lines alike, ours within 5 % of hivemind's; on mixed lines at most 1.15 of the bound and at least 1.4
times as fast as equal parts; with most peers in client mode no round fails.
"""

import json
import statistics
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from benchmarks import command
from benchmarks.averaging_worker import ELEMENT_BYTES, RULES, RoundTimes, Task, read_rounds, work
from benchmarks.hosted_peers import BenchmarkFailed, start_peers, wait_for
from benchmarks.plan import LINES, MEGABIT, lines_of
from swarm.durable import write_file
from tests.faults.hosts import Hosts, NoHosts, made_hosts
from tests.forked import Forked
from trainer.averaging.planning.plan import GlobalStep, Peer
from trainer.averaging.planning.program import round_rate

MIXED = sorted(LINES * 2, reverse=True)
# Mbit/s down and up, and how many of the last ones are in client mode
SETS = {"homogeneous": ([(5, 5)] * 8, 0), "mixed": (MIXED, 0), "firewalled": (MIXED, 5)}
MEGABYTES = 8.0  # an ALBERT of 12 million parameters has 12 in 8 bits


@dataclass(frozen=True)
class Figures:
    """Of a set of peers; seconds of a round, medians."""

    equal: float
    hivemind: float
    ours: float
    bound: float
    failed_rounds: int
    equal_rounds: list[float]
    hivemind_rounds: list[float]
    ours_rounds: list[float]  # the first one, with parts that are still equal, comes first
    measured_uploads: list[float]  # by the peers themselves, Mbit/s
    parts: list[float]  # of the vector, in the last round


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
            found[name] = measure(Path(folder), *SETS[name], rounds, round(megabytes * 1e6 / ELEMENT_BYTES))
        Console(stderr=True).print(name, asdict(found[name]))
    table = Table("", *RULES, "bound", "failed rounds", title="Seconds of a round")
    for name, one in found.items():
        table.add_row(name, *(f"{getattr(one, rule):.2f}" for rule in (*RULES, "bound")), str(one.failed_rounds))
    Console().print(table)
    if json_file:
        write_file(json_file, json.dumps({name: asdict(one) for name, one in found.items()}, indent=2) + "\n")


def measure(folder: Path, lines: list[tuple[int, int]], clients: int, rounds: int, elements: int) -> Figures:
    """Let peers with these lines, the last ones in client mode, average a vector by each rule."""
    names = [f"peer{number}" for number in range(len(lines))]
    reachable = [number < len(lines) - clients for number in range(len(lines))]
    peers: list[Forked] = []
    try:
        with made_hosts(*names) as hosts:
            for name, (down, up) in zip(names, lines, strict=True):
                hosts.limit(name, up, down)
            uploads = tuple(up if can else 0.0 for (_, up), can in zip(lines, reachable, strict=True))
            tasks = _start(folder, hosts, uploads, peers, rounds, elements)
            for task, peer in zip(tasks, peers, strict=True):
                wait_for(task, peer)
            return _figures(tasks, lines, rounds)
    except NoHosts as error:
        raise BenchmarkFailed(str(error)) from None
    finally:
        for peer in peers:
            peer.kill()


def _start(
    folder: Path, hosts: Hosts, uploads: tuple[float, ...], peers: list[Forked], rounds: int, elements: int
) -> list[Task]:
    """The first peer, and all others through it."""

    def task_of(number: int, namespace: str, known: tuple[str, ...]) -> Task:
        return Task(str(folder), number, namespace, uploads, not uploads[number], known, rounds, elements)

    return start_peers(hosts, work, task_of, peers)


def _figures(tasks: list[Task], lines: list[tuple[int, int]], rounds: int) -> Figures:
    told = [read_rounds(task) for task in tasks]
    seconds: dict[str, list[float]] = {}
    failed = 0
    for rule in RULES:
        tried = rounds + (rule == "ours")
        together = [[one for its in told for one in its if (one.rule, one.number) == (rule, i)] for i in range(tried)]
        ended = [_seconds(its, len(tasks)) for its in together]
        failed += ended.count(None)
        seconds[rule] = [round(one, 2) for one in ended if one is not None]
    counted = seconds | {"ours": seconds["ours"][1:]}
    medians = {rule: round(statistics.median(its), 2) if its else float("nan") for rule, its in counted.items()}
    true = lines_of(
        [
            Peer(1.0, up * MEGABIT, down * MEGABIT, task.client_mode)
            for task, (down, up) in zip(tasks, lines, strict=True)
        ],
        GlobalStep(tasks[0].elements, float(ELEMENT_BYTES * tasks[0].elements), samples=1.0),
    )
    return Figures(
        **medians,
        bound=round(1.0 / round_rate(true, np.ones(len(tasks), dtype=np.bool_)), 2),
        failed_rounds=failed,
        equal_rounds=seconds["equal"],
        hivemind_rounds=seconds["hivemind"],
        ours_rounds=seconds["ours"],
        measured_uploads=[round(its[-1].upload / MEGABIT, 2) for its in told],
        parts=[round(its[-1].part, 3) for its in told],
    )


def _seconds(rounds: list[RoundTimes], peers: int) -> float | None:
    """From the moment at which the first peer begins to the end of the last; None if the round failed for anybody."""
    if len(rounds) != peers or any(one.problem or one.peers != peers for one in rounds):
        return None
    return max(one.ended for one in rounds) - min(one.began for one in rounds)


if __name__ == "__main__":
    command.run(main)
