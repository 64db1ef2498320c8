"""What attacks cost a swarm: its speed while attackers are at it, beside its speed alone.

    python -m benchmarks.attack [--seconds 80] [--repeats 3] [--json FILE]

A swarm (a coordinator and two trainers) has one core, the attackers another: they stand for machines
elsewhere, and what they take from the swarm is the work of refusing them. The attackers are those of tests/access:
calls and streams of all kinds without a pass and with a forged one, absurd heads with a real one, and a crowd at the
door, all the while. Attacked and quiet times take turns in one run. Two cores of one machine are no two machines: each
computes more slowly while the other one is busy. So in the quiet times a neighbour takes as much of the attackers' core
as they did, and does nothing to the swarm. Two ratios: of the samples that the ledger counted in a second, and of the
share of the core that the trainers' own processes had, which a drift of the machine's speed does not touch.
Run it from the repository's root.
"""

import contextlib
import hashlib
import json
import multiprocessing
import os
import statistics
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import psutil
import typer
from rich.console import Console
from rich.table import Table

from app.demo.corpus import prepare_corpus
from app.demo.demo import DEFAULT_RUN
from benchmarks.support import command
from swarm.errors import SahajError
from swarm.files import write_file
from swarm.hivemind_patches.orphans import end_with_parent
from swarm.run_file import dump_run, load_run, parse_run
from tests.access.guarded_swarm import TRAINERS, Attack, GuardedSwarm
from tests.support.small_swarm import run_content
from tokenizer.command import train_from_run

STEP_SAMPLES = 4096  # some 10 s of one core
LOOK_EVERY = 0.1  # seconds
NEIGHBOUR_SLICE = 0.02  # seconds


@dataclass(frozen=True)
class Comparison:
    """Medians over the repeats; speeds in samples per second."""

    ratio: float  # of the counted samples per second: under attack to alone
    share_ratio: float  # of the share of the core for the trainers' own processes
    alone_share: float
    attacked_share: float
    alone_samples_per_second: float
    attacked_samples_per_second: float
    calls_per_second: float  # of the attackers, all kinds together
    failures: int  # rounds that failed under attack, of both trainers
    ratios: list[float]  # of each repeat
    share_ratios: list[float]


@dataclass(frozen=True)
class Pace:
    """How a swarm gets on for a while."""

    share: float  # of its core, for the trainers' own processes
    samples_per_second: float
    failures: int  # averaging rounds


def main(
    seconds: Annotated[float, typer.Option(min=10.0, help="Of each measurement.")] = 80.0,
    repeats: Annotated[int, typer.Option(min=1, help="The median counts.")] = 3,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the figures to this file.")] = None,
) -> None:
    """Measure, print a table, and write the JSON file if one is asked for."""
    swarm_core, attackers_core = command.two_cores()
    with tempfile.TemporaryDirectory(prefix="sahaj-bench-") as folder:
        os.sched_setaffinity(0, {swarm_core})  # for whatever is started from now on
        swarm = _start(Path(folder))
        os.sched_setaffinity(0, {attackers_core})
        try:
            result = compare(swarm, seconds, repeats)
        finally:
            swarm.kill_all()
    _print(result)
    if json_file:
        write_file(json_file, json.dumps(asdict(result), indent=2) + "\n")


def compare(swarm: GuardedSwarm, seconds: float, repeats: int) -> Comparison:
    """Measure alone and under attack in turn, `repeats` times."""
    console = Console(stderr=True)
    alone: list[Pace] = []
    attacked: list[Pace] = []
    calls = 0
    for number in range(repeats):
        with swarm.attacking("siege", seconds=seconds) as attack:
            swarm.wait(lambda: attack.begun("siege"), "beginning of the attack")
            before = _seconds_of(attack)
            attacked.append(_pace(swarm, seconds))
            busy = (_seconds_of(attack) - before) / seconds
            swarm.wait(lambda: attack.process.poll() is not None, "end of the attack")
            if attack.process.returncode:
                raise SahajError(f"the attack has failed: {attack.words()}")
            calls += attack.got("siege")["calls"]
        with _neighbour(busy):
            alone.append(_pace(swarm, seconds))
        console.print(f"repeat {number + 1}: under attack {attacked[-1]}, alone {alone[-1]}, neighbour {busy:.2f}")
    ratios = [one.samples_per_second / other.samples_per_second for one, other in zip(attacked, alone, strict=True)]
    shares = [one.share / other.share for one, other in zip(attacked, alone, strict=True)]
    return Comparison(
        ratio=round(statistics.median(ratios), 4),
        share_ratio=round(statistics.median(shares), 4),
        alone_share=round(statistics.median(one.share for one in alone), 4),
        attacked_share=round(statistics.median(one.share for one in attacked), 4),
        alone_samples_per_second=round(statistics.median(one.samples_per_second for one in alone), 1),
        attacked_samples_per_second=round(statistics.median(one.samples_per_second for one in attacked), 1),
        calls_per_second=round(calls / (repeats * seconds), 1),
        failures=sum(one.failures for one in attacked),
        ratios=[round(one, 4) for one in ratios],
        share_ratios=[round(one, 4) for one in shares],
    )


@contextlib.contextmanager
def _neighbour(share: float) -> Iterator[None]:
    """A process that takes this share of the attackers' core while the block runs, in slices as theirs."""
    process = multiprocessing.get_context("spawn").Process(target=_keep_busy, args=(share,), daemon=True)
    process.start()
    try:
        yield
    finally:
        process.kill()
        process.join()


def _keep_busy(share: float) -> None:
    end_with_parent()
    block = os.urandom(1 << 16)
    while True:
        until = time.monotonic() + NEIGHBOUR_SLICE * share
        while time.monotonic() < until:
            hashlib.sha256(block)
        time.sleep(NEIGHBOUR_SLICE * max(0.0, 1.0 - share))


def _seconds_of(attack: Attack) -> float:
    """Seconds of a processor that the attackers' processes have had."""
    first = psutil.Process(attack.process.pid)
    times = [one.cpu_times() for one in (first, *first.children(recursive=True))]
    return float(sum(one.user + one.system for one in times))


def _start(folder: Path) -> GuardedSwarm:
    """A swarm of two trainers that has found its pace."""
    prepare_corpus(load_run(DEFAULT_RUN), None, folder / "corpus")
    content = run_content(folder / "corpus", target_batch_size=STEP_SAMPLES, total_steps=10)
    write_file(folder / "run.yaml", dump_run(parse_run(content, folder / "run.yaml")))
    train_from_run(folder / "run.yaml", console=Console(stderr=True))
    swarm = GuardedSwarm(folder / "swarm", folder / "corpus", folder / "tokenizer", target_batch_size=STEP_SAMPLES)
    swarm.start()
    return swarm


def _pace(swarm: GuardedSwarm, seconds: float) -> Pace:
    """Speed counts from the first global step that is taken in the window to the last one."""
    began, computed, seen, failed = time.monotonic(), _computed(swarm), swarm.done(), swarm.health().failures
    taken: list[tuple[float, int]] = []  # when, and the step
    while time.monotonic() < began + seconds:
        if (done := swarm.done()) > seen:
            taken.append((time.monotonic(), seen := done))
        time.sleep(LOOK_EVERY)
    share = (_computed(swarm) - computed) / (time.monotonic() - began)
    if len(taken) < 2:
        raise SahajError(f"{len(taken)} global steps in {seconds:.0f} s; measure for longer with --seconds")
    (first_at, first), (last_at, last) = taken[0], taken[-1]
    samples = sum(one.samples for one in swarm.steps() if first <= one.step < last)  # the ledger counts from 0
    speed = samples / (last_at - first_at)
    return Pace(round(share, 4), round(speed, 1), swarm.health().failures - failed)


def _computed(swarm: GuardedSwarm) -> float:
    """Seconds of a processor that the trainers' own processes have had; their helpers' are not in it."""
    trainers = [peer for peer in swarm.peers if peer.name in TRAINERS]
    times = [psutil.Process(peer.process.pid).cpu_times() for peer in trainers]
    return float(sum(one.user + one.system for one in times))


def _print(result: Comparison) -> None:
    table = Table(title="A swarm of two trainers on one core, attackers on another")
    table.add_column("")
    table.add_column("share of the core for computing", justify="right")
    table.add_column("samples/s", justify="right")
    table.add_row("alone", f"{result.alone_share:.3f}", f"{result.alone_samples_per_second:,.1f}")
    table.add_row(
        f"under attack ({result.calls_per_second:.0f} calls/s)",
        f"{result.attacked_share:.3f}",
        f"{result.attacked_samples_per_second:,.1f}",
    )
    table.add_row("ratio", f"{result.share_ratio:.3f}", f"{result.ratio:.3f}")
    Console().print(table)


if __name__ == "__main__":
    command.run(main)
