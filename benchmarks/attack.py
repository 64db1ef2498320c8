"""What attacks cost a swarm: its speed while attackers are at it, beside its speed alone.

    python -m benchmarks.attack [--seconds 80] [--repeats 3] [--json FILE]

A guarded swarm (a coordinator and two trainers) has one core, the attackers another: they stand for machines
elsewhere, and what they take from the swarm is the work of refusing them. The attackers are those of tests/access:
calls of all kinds without a pass and with a forged one, absurd progress with a real one, and a crowd at the door, all
the while. Quiet and attacked times take turns in one run. Run it from the repository's root.
"""

import argparse
import json
import os
import signal
import statistics
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from app.demo import DEFAULT_RUN
from app.demo_corpus import prepare_corpus
from swarm.durable import write_file
from swarm.errors import SahajError
from swarm.run_file import dump_run, load_run, parse_run
from tests.access.guarded_swarm import GuardedSwarm
from tests.peers.small_swarm import run_content
from tokenizer.command import train_from_run

STEP_SAMPLES = 4096  # some 10 s of one core
LOOK_EVERY = 0.1  # seconds


@dataclass(frozen=True)
class Comparison:
    """Speeds in samples per second, medians over the repeats."""

    ratio: float  # of the speed under attack to the speed alone
    alone_samples_per_second: float
    attacked_samples_per_second: float
    calls_per_second: float  # of the attackers, all kinds together
    ratios: list[float]  # of each repeat


def main() -> None:
    """Measure, print a table, and write the JSON file if one is asked for."""
    parser = argparse.ArgumentParser(description="The speed of a swarm under attack on this machine.")
    parser.add_argument("--seconds", type=float, default=80.0, help="of each measurement")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", type=Path, default=None, metavar="FILE")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # swarm and attackers are ended either way
    swarm_core, attackers_core = sorted(os.sched_getaffinity(0))[:2]
    with tempfile.TemporaryDirectory(prefix="sahaj-bench-") as folder:
        os.sched_setaffinity(0, {swarm_core})  # for whatever is started from now on
        swarm = _start(Path(folder))
        os.sched_setaffinity(0, {attackers_core})
        try:
            result = compare(swarm, options.seconds, options.repeats)
        finally:
            swarm.kill_all()
    _print(result)
    if options.json:
        write_file(options.json, json.dumps(asdict(result), indent=2) + "\n")


def compare(swarm: GuardedSwarm, seconds: float, repeats: int) -> Comparison:
    """Measure alone and under attack in turn, `repeats` times."""
    console = Console(stderr=True)
    alone: list[float] = []
    attacked: list[float] = []
    calls = 0
    for number in range(repeats):
        alone.append(_speed(swarm, seconds))
        with swarm.attacking("siege", seconds=seconds) as attack:
            swarm.wait(lambda: attack.begun("siege"), "beginning of the attack")
            attacked.append(_speed(swarm, seconds))
            swarm.wait(lambda: attack.process.poll() is not None, "end of the attack")
            if attack.process.returncode:
                raise SahajError(f"the attack has failed: {attack.words()}")
            calls += attack.got("siege")["calls"]
        console.print(f"repeat {number + 1}: alone {alone[-1]:.1f}, under attack {attacked[-1]:.1f} samples/s")
    ratios = [one / other for one, other in zip(attacked, alone, strict=True)]
    return Comparison(
        ratio=round(statistics.median(ratios), 4),
        alone_samples_per_second=round(statistics.median(alone), 1),
        attacked_samples_per_second=round(statistics.median(attacked), 1),
        calls_per_second=round(calls / (repeats * seconds), 1),
        ratios=[round(one, 4) for one in ratios],
    )


def _start(folder: Path) -> GuardedSwarm:
    """A swarm of two trainers that has found its pace."""
    prepare_corpus(load_run(DEFAULT_RUN), None, folder / "corpus")
    content = run_content(folder / "corpus", target_batch_size=STEP_SAMPLES, total_steps=10)
    write_file(folder / "run.yaml", dump_run(parse_run(content, folder / "run.yaml")))
    train_from_run(folder / "run.yaml", console=Console(stderr=True))
    swarm = GuardedSwarm(folder / "swarm", folder / "corpus", folder / "tokenizer", target_batch_size=STEP_SAMPLES)
    swarm.start()
    return swarm


def _speed(swarm: GuardedSwarm, seconds: float) -> float:
    """Samples per second from the first global step that is taken in the window to the last one."""
    until, seen = time.monotonic() + seconds, swarm.done()
    taken: list[tuple[float, int]] = []  # when, and the step
    while time.monotonic() < until:
        if (done := swarm.done()) > seen:
            taken.append((time.monotonic(), seen := done))
        time.sleep(LOOK_EVERY)
    if len(taken) < 2:
        raise SahajError(f"{len(taken)} global steps in {seconds:.0f} s; measure for longer with --seconds")
    (began, first), (ended, last) = taken[0], taken[-1]
    samples = sum(one.samples for one in swarm.steps() if first <= one.step < last)  # the ledger counts from 0
    return samples / (ended - began)


def _print(result: Comparison) -> None:
    table = Table(title="A swarm of two trainers on one core, attackers on another")
    table.add_column("")
    table.add_column("samples/s", justify="right")
    table.add_row("alone", f"{result.alone_samples_per_second:,.1f}")
    table.add_row(f"under attack ({result.calls_per_second:.0f} calls/s)", f"{result.attacked_samples_per_second:,.1f}")
    table.add_row("ratio", f"{result.ratio:.3f}")
    Console().print(table)


if __name__ == "__main__":
    main()
