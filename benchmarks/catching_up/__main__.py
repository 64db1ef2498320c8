"""How long a peer behind a thin line takes to catch up with a run, and what a crowd of them costs the others.

    python -m benchmarks.catching_up [--json FILE]

Peers are processes on hosts of their own (network namespaces, whose cables carry so much up and so much down); needs
root, `ip` and `tc`. A coordinator and two trainers have 200 Mbit/s. They average made-up gradients in 8 bits, a batch a
second each, in which they sleep: what is measured is the log and the lines, not the processors.

*A thin line.* A peer behind 10/10 Mbit/s joins a run of 18 million parameters whose steps take 30 s. `seconds` is from
its start, DHT included, to the commit of the first header with gradients of it. `bound` is (S + A u) T / (T - u): S
seconds for the snapshot that it loads, A updates since then, u seconds an update (the slower of its bytes over the line
and the optimizer step), T seconds a step, as the others have taken them before. It has to take at most 1.2 times that.

*A crowd.* Twenty such peers join a run of a third of those parameters and seconds at once, so that they fit on one
machine. A further source, with a line as the trainers', is killed once they have half of the snapshot. `dip` is by how
much fewer samples a second the trainers compute while the crowd loads than before; `began_again` counts joiners that
were sent more than the snapshot, or needed more than one. The largest dip is 0.10, and nobody begins again.

`meeting` is how long after its batch was full a round began, as the median of those without a joiner.
"""

import json
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from averaging.reduce.gradient_codec import encoded_bytes
from averaging.reduce.grid import Grid
from benchmarks.catching_up.peers import Peers
from benchmarks.catching_up.worker import TOKENS, Task, work
from benchmarks.support import command
from benchmarks.support.hosted_peer import HostedTask
from benchmarks.support.hosted_peers import BenchmarkFailed, start_peers
from swarm.files import write_file
from tests.support.forked import Forked
from tests.support.hosts import NoHosts, made_hosts

FAT, THIN = (200.0, 200.0), (10.0, 10.0)  # Mbit/s up and down
BATCH = 1.0  # seconds
LATEST = 5.0  # times the expected seconds, after which the benchmark gives up
AGAIN = 1.1  # times the snapshot; a peer that was sent more has begun again
TRAINERS = (1, 2)  # numbers of the peers that train before anybody joins
OPENING = 60.0  # seconds that the first step may take beside the usual ones


@dataclass(frozen=True)
class Scale:
    """Of a run."""

    elements: int
    step: float  # seconds
    snapshot_every: int  # global steps
    joins_after: int  # global steps


THIN_RUN = Scale(18_000_000, 30.0, snapshot_every=6, joins_after=8)
CROWDED_RUN = Scale(6_000_000, 10.0, snapshot_every=6, joins_after=8)


@dataclass(frozen=True)
class Joining:
    """Of one peer behind a thin line."""

    seconds: float  # to the first header with gradients of it
    bound: float
    ratio: float
    loaded_after: float  # seconds: it has the snapshot
    caught_up_after: float  # seconds: it has applied the newest header for the first time
    snapshot_seconds: float  # S, at the speed of the line
    updates_since: int  # A
    update_seconds: float  # u
    step_seconds: float  # T
    round_seconds: float  # from the meeting to the commit, with it as a member
    meeting: float  # seconds from the full batch to the round, median
    longest_meeting: float


@dataclass(frozen=True)
class Crowd:
    """Of many that join at once."""

    joiners: int
    dip: float
    samples_before: float  # a second
    samples_while_loading: float
    crowd_loaded_after: list[float]  # seconds, of each joiner, sorted
    began_again: int  # joiners that lost what they had


def main(
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the figures to this file.")] = None,
    joiners: Annotated[int, typer.Option(min=0, help="Of the crowd; 0: only the thin line.")] = 20,
    thin: Annotated[bool, typer.Option(help="Whether to measure the thin line.")] = True,
) -> None:
    """Measure, print tables, and write the JSON file if one is asked for."""
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="sahaj-catching-up-") as folder:
        if thin:
            found |= asdict(measure_joining(Path(folder, "thin"), THIN_RUN))
        if joiners:
            found |= asdict(measure_crowd(Path(folder, "crowd"), CROWDED_RUN, joiners))
    if json_file:
        write_file(json_file, json.dumps(found, indent=2) + "\n")
    table = Table("", "", title="Catching up over 10/10 Mbit/s")
    for name, value in found.items():
        table.add_row(name.replace("_", " "), str(value))
    Console().print(table)


def measure_joining(folder: Path, scale: Scale) -> Joining:
    """One peer behind a thin line joins."""

    def course(peers: Peers) -> Joining:
        joiner = len(peers.tasks) - 1
        peers.wait(lambda: peers.tip() >= scale.joins_after, "steps", OPENING + 3 * scale.joins_after * scale.step)
        tip, go = peers.tip(), peers.go()
        _say(f"a peer joins at step {tip}")
        line = THIN[1] * 1e6 / 8  # bytes a second
        expected = scale.elements * 8 / line
        peers.wait(lambda: bool(peers.events(joiner, "fetched")), "snapshot", LATEST * expected)
        fetched = peers.events(joiner, "fetched")[0]
        _say(f"it has a snapshot after {fetched['at'] - go:.0f} s")
        name = f"peer{joiner}"

        def with_it() -> list[dict[str, Any]]:
            return [one for one in peers.events(0, "applied") if name in one["weights"]]

        peers.wait(lambda: len(with_it()) > 1, "header with it", LATEST * 3 * expected)
        seconds = with_it()[0]["at"] - go
        commits = [one["at"] for one in peers.events(0, "applied") if one["step"] <= tip]
        step = (commits[-1] - commits[0]) / (len(commits) - 1)
        own = statistics.median(one["seconds"] for one in peers.events(joiner, "stepped"))
        update = max(own, _update_bytes(scale.elements) / line)
        snapshot, since = fetched["snapshot"] / line, max(0, tip - fetched["step"])
        bound = (snapshot + since * update) * step / (step - update)
        meetings = _meetings(peers, tip)
        met = {one["step"]: one["at"] for one in peers.events(0, "met")}
        rounds = [one["at"] - met[one["step"]] for one in with_it() if one["step"] in met]
        return Joining(
            seconds=round(seconds, 1),
            bound=round(bound, 1),
            ratio=round(seconds / bound, 3),
            loaded_after=round(fetched["at"] - go, 1),
            caught_up_after=round(_caught_up(peers, joiner) - go, 1),
            snapshot_seconds=round(snapshot, 1),
            updates_since=since,
            update_seconds=round(update, 1),
            step_seconds=round(step, 1),
            round_seconds=round(statistics.median(rounds), 1),
            meeting=round(statistics.median(meetings), 3),
            longest_meeting=round(max(meetings), 3),
        )

    return _run(folder, scale, [FAT, FAT, FAT, THIN], idle=(0,), course=course)


def measure_crowd(folder: Path, scale: Scale, joiners: int) -> Crowd:
    """Many join at once, and one of their sources is killed."""
    source, first = len(TRAINERS) + 1, len(TRAINERS) + 2
    numbers = range(first, first + joiners)

    def course(peers: Peers) -> Crowd:
        peers.wait(lambda: all(peers.tasks[one].file("ready").exists() for one in numbers), "crowd", 600.0)
        begun = max(scale.joins_after, peers.tip() + 3)
        peers.wait(lambda: peers.tip() >= begun, "steps", OPENING + 3 * begun * scale.step)
        tip, go = peers.tip(), peers.go()
        _say(f"{joiners} peers join at step {tip}")
        half = scale.elements * 4

        def received() -> float:
            return statistics.median(_last(peers.events(one, "received"), "bytes") for one in numbers)

        expected = scale.elements * 8 / (THIN[1] * 1e6 / 8)
        peers.wait(lambda: received() > half, "half of a snapshot", LATEST * expected)
        peers.kill(source)
        _say(f"a source is killed after {time.monotonic() - go:.0f} s")
        peers.wait(
            lambda: all(peers.events(one, "fetched") for one in numbers), "snapshots", LATEST * expected, dead=[source]
        )
        fetched = [peers.events(one, "fetched") for one in numbers]
        loaded = max(one[0]["at"] for one in fetched)
        commits = [one["at"] for one in peers.events(0, "applied") if tip - 3 <= one["step"] <= tip]
        before, loading = _samples(peers, commits[0], go), _samples(peers, go, loaded)
        again = [one for one in fetched if len(one) > 1 or one[0]["bytes"] > AGAIN * one[0]["snapshot"]]
        return Crowd(
            joiners=joiners,
            dip=round(1 - loading / before, 3),
            samples_before=round(before, 1),
            samples_while_loading=round(loading, 1),
            crowd_loaded_after=sorted(round(one[0]["at"] - go, 1) for one in fetched),
            began_again=len(again),
        )

    lines = [FAT] * first + [THIN] * joiners
    return _run(folder, scale, lines, idle=(0, source, *numbers), course=course)


def _run(
    folder: Path,
    scale: Scale,
    lines: Sequence[tuple[float, float]],
    idle: Sequence[int],
    course: "Callable[[Peers], Any]",
) -> Any:
    """Start a run, go through a course, and end it."""
    folder.mkdir()
    names = [f"host{number}" for number in range(len(lines))]
    target = int(scale.step * len(TRAINERS) / BATCH) * TOKENS
    processes: list[Forked] = []
    try:
        with made_hosts(*names) as hosts:
            for name, (up, down) in zip(names, lines, strict=True):
                hosts.limit(name, up, down)

            def task_of(one: HostedTask) -> Task:
                return Task(
                    **vars(one),
                    elements=scale.elements,
                    target=target,
                    snapshot_every=scale.snapshot_every,
                    batch=0.0 if one.number in idle else BATCH,
                    waits=lines[one.number] == THIN,
                )

            try:
                tasks = start_peers(folder, hosts, work, task_of, processes)
                return course(Peers(tasks, processes))
            finally:
                for process in processes:
                    process.kill_all()
    except NoHosts as error:
        raise BenchmarkFailed(str(error)) from None


def _say(what: str) -> None:
    typer.echo(what, err=True)


def _update_bytes(elements: int) -> int:
    grid = Grid(elements)
    return sum(encoded_bytes(grid.size(chunk), "8bit") for chunk in range(grid.count))


def _last(events: Sequence[dict[str, Any]], key: str) -> float:
    return float(events[-1][key]) if events else 0.0


def _caught_up(peers: Peers, joiner: int) -> float:
    """When a peer has first applied a header before the next one was committed."""
    commits = {one["step"]: one["at"] for one in peers.events(0, "applied")}
    own = peers.events(joiner, "applied")
    return float(next(one["at"] for one in own if one["at"] < commits.get(one["step"] + 1, float("inf"))))


def _samples(peers: Peers, begin: float, end: float) -> float:
    """Those that the trainers have computed in a time and that count, a second."""
    ended = [
        one
        for number in TRAINERS
        for one in peers.events(number, "batch")
        if one["counts"] and begin < one["at"] <= end
    ]
    return len(ended) * TOKENS / (end - begin)


def _meetings(peers: Peers, last: int) -> list[float]:
    """Seconds from the full batch to the meeting, of each step up to the last one."""
    ended = sorted(one["at"] for number in TRAINERS for one in peers.events(number, "batch") if one["counts"])
    commits = {one["step"]: one for one in peers.events(0, "applied")}
    met: dict[int, float] = {}
    for one in peers.events(0, "met"):
        met.setdefault(one["step"], one["at"])
    before, found = 0, []
    for step in range(1, last + 1):
        full = ended[(before + peers.tasks[0].target) // TOKENS - 1]
        begins = max(full, commits[step - 1]["at"]) if step > 1 else full
        found.append(met[step] - begins)
        before += sum(commits[step]["weights"].values())
    return found


if __name__ == "__main__":
    command.run(main)
