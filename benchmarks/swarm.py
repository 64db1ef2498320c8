"""What averaging costs, and what guarding it costs: k trainers in a swarm beside k that do not communicate.

    python -m benchmarks.swarm [--trainers 2] [--seconds 60] [--repeats 3] [--json FILE]

Three sides run the same model on the same text with the same optimizer, one thread a trainer, and take
turns, so that a slower hour of the machine hits all: separate trainers, a swarm that gives no passes, and a
guarded one. A swarm has its coordinator on the same cores. Efficiency is the samples per second of the open swarm
over those of the separate trainers, the cost of guarding what the guarded swarm lacks to the open one; medians.
"""

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil
from rich.console import Console
from rich.table import Table

from app.demo import DEFAULT_RUN
from app.demo_corpus import prepare_corpus
from app.demo_peers import Peer, start_peer, wait_for_address
from benchmarks.swarm_worker import Measured, read_measured
from coordinator.coordinator import ADDRESSES
from coordinator.reception import URL
from swarm.durable import write_file
from swarm.run_file import RunFile, dump_run, load_run, parse_run
from tokenizer.command import train_from_run

ENDLESS = 100_000  # global steps: the benchmark ends by time


@dataclass(frozen=True)
class Comparison:
    """One swarm beside the same trainers on their own; speeds in samples per second, medians."""

    trainers: int
    efficiency: float
    guard_cost: float  # fraction of the open swarm's speed that the guarded one lacks
    swarm_samples_per_second: float
    guarded_samples_per_second: float
    separate_samples_per_second: float
    averaging_seconds: float  # from the beginning of a round to its end, while computing goes on
    global_step_seconds: float
    bytes_per_step: int  # sent by all peers together, DHT and coordinator included
    averaging_failures: int
    efficiencies: list[float]  # of each repeat


def main() -> None:
    """Measure, print a table, and write the JSON file if one is asked for."""
    parser = argparse.ArgumentParser(description="The cost of averaging in a swarm on this machine.")
    parser.add_argument("--trainers", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=60.0, help="of each measurement, after a warm-up")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--step-samples", type=int, default=None, help="target batch size; by default 20 s worth")
    parser.add_argument("--json", type=Path, default=None, metavar="FILE")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # the trainers are ended either way
    with tempfile.TemporaryDirectory(prefix="sahaj-bench-") as folder:
        result = compare(Path(folder), options.trainers, options.seconds, options.repeats, options.step_samples)
    _print(result)
    if options.json:
        write_file(options.json, json.dumps(asdict(result), indent=2) + "\n")


def compare(folder: Path, trainers: int, seconds: float, repeats: int, step_samples: int | None) -> Comparison:
    """Measure both sides in turn, `repeats` times."""
    console = Console(stderr=True)
    run = _prepare(folder, step_samples or 0, console)
    speeds: list[tuple[float, float, float]] = []  # open swarm, separate, guarded swarm
    rounds: list[float] = []
    step_bytes: list[float] = []
    step_times: list[float] = []
    failures = 0
    for number in range(repeats):
        separate = _speed(_separate(folder / f"separate{number}", trainers, seconds))
        if step_samples is None and number == 0:
            # DeDLOC's large batches take minutes; 20 s keeps the benchmark short and is the harder case
            run = _prepare(folder, max(64, round(20 * separate)), console)
        sent = psutil.net_io_counters(pernic=True)["lo"].bytes_sent
        swarm = _swarm(folder / f"swarm{number}", run, trainers, seconds)
        sent = psutil.net_io_counters(pernic=True)["lo"].bytes_sent - sent
        content = run.model_dump() | {"access": {"open": True, "host": "127.0.0.1", "port": 0}}
        write_file(folder / "run.yaml", dump_run(parse_run(content, folder / "run.yaml")))
        guarded = _swarm(folder / f"guarded{number}", run, trainers, seconds, guarded=True)
        write_file(folder / "run.yaml", dump_run(run))
        speeds.append((_speed(swarm), separate, _speed(guarded)))
        rounds += [duration for one in swarm for duration in one.round_seconds]
        failures += sum(one.failures for one in swarm + guarded)
        steps = max(one.steps for one in swarm)
        step_bytes.append(sent / max(1, steps))
        taken = max(one.steps_in_window for one in swarm)
        step_times.append(max(one.seconds for one in swarm) / max(1, taken))
        console.print(
            f"repeat {number + 1}: swarm {speeds[-1][0]:.1f}, separate {separate:.1f}, "
            f"guarded {speeds[-1][2]:.1f} samples/s"
        )
    efficiencies = [open_swarm / separate for open_swarm, separate, _ in speeds]
    return Comparison(
        trainers=trainers,
        efficiency=round(statistics.median(efficiencies), 4),
        guard_cost=round(1 - statistics.median(guarded / open_swarm for open_swarm, _, guarded in speeds), 4),
        swarm_samples_per_second=round(statistics.median(one for one, _, _ in speeds), 1),
        guarded_samples_per_second=round(statistics.median(one for _, _, one in speeds), 1),
        separate_samples_per_second=round(statistics.median(one for _, one, _ in speeds), 1),
        averaging_seconds=round(statistics.median(rounds), 2) if rounds else 0.0,
        global_step_seconds=round(statistics.median(step_times), 1),
        bytes_per_step=round(statistics.median(step_bytes)),
        averaging_failures=failures,
        efficiencies=[round(one, 4) for one in efficiencies],
    )


def _prepare(folder: Path, step_samples: int, console: Console) -> RunFile:
    """The demo's run with another target batch size, its text and tokenizer made once."""
    template = load_run(DEFAULT_RUN)
    content = template.model_dump()
    content["tokenizer"]["path"] = "tokenizer"
    content["data"]["train"] = [{"path": "corpus/train.jsonl"}]
    content["data"]["validation"] = []
    content["optimizer"] |= {"total_steps": ENDLESS, "warmup_steps": 100}
    content["averaging"] |= {"target_batch_size": step_samples or 1024}
    content["coordinator"] |= {"checkpoint_every": ENDLESS}
    if not (folder / "corpus").exists():
        prepare_corpus(template, None, folder / "corpus")
    run = parse_run(content, folder / "run.yaml")
    write_file(folder / "run.yaml", dump_run(run))
    if not (folder / "tokenizer").exists():
        train_from_run(folder / "run.yaml", console=console)
    return run


def _separate(folder: Path, trainers: int, seconds: float) -> list[Measured]:
    return _measured(folder, trainers, seconds, [])


def _swarm(folder: Path, run: RunFile, trainers: int, seconds: float, *, guarded: bool = False) -> list[Measured]:
    state = folder / "coordinator"
    command = ["coordinator", str(run.folder / "run.yaml"), "--state", str(state)]
    coordinator: Peer = start_peer("coordinator", command, folder / "coordinator.log")
    try:
        address = wait_for_address(coordinator, state / ADDRESSES)
        way_in = ["--initial-peer", address]
        if guarded:
            way_in += ["--url", wait_for_address(coordinator, state / URL)]
        return _measured(folder, trainers, seconds, way_in)
    finally:
        coordinator.kill()


def _measured(folder: Path, trainers: int, seconds: float, extra: list[str]) -> list[Measured]:
    """Run the trainers side by side; none of them outlives this."""
    workers: list[Peer] = []
    try:
        workers.extend(_start(folder, number, seconds, extra) for number in range(trainers))
        return [_result(worker, folder / f"{worker.name}.json") for worker in workers]
    finally:
        for worker in workers:
            worker.kill()


def _start(folder: Path, number: int, seconds: float, extra: list[str]) -> Peer:
    folder.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "benchmarks.swarm_worker", str(folder.parent / "run.yaml")]
    command += [str(folder / f"worker{number}.json"), "--number", str(number), "--seconds", str(seconds), *extra]
    path = folder / f"worker{number}.log"
    with path.open("wb") as log:
        environment = os.environ | {"OMP_NUM_THREADS": "1"}
        process = subprocess.Popen(command, stdout=log, stderr=log, env=environment, start_new_session=True)
    return Peer(f"worker{number}", process, path, client_mode=False)


def _result(worker: Peer, output: Path) -> Measured:
    if worker.process.wait(timeout=1200) != 0:
        raise SystemExit(f"a trainer failed:\n{worker.log.read_text(errors='replace')[-2000:]}")
    return read_measured(output)


def _speed(measured: list[Measured]) -> float:
    return sum(one.samples / one.seconds for one in measured)


def _print(result: Comparison) -> None:
    table = Table("", f"{result.trainers} trainers in a swarm", "in a guarded swarm", "separate")
    table.add_row(
        "samples per second",
        f"{result.swarm_samples_per_second:.1f}",
        f"{result.guarded_samples_per_second:.1f}",
        f"{result.separate_samples_per_second:.1f}",
    )
    table.add_row("efficiency", f"{result.efficiency:.3f}", f"{result.efficiency * (1 - result.guard_cost):.3f}", "1")
    table.add_row("seconds of averaging, beside computing", f"{result.averaging_seconds:.2f}", "")
    table.add_row("seconds of a global step", f"{result.global_step_seconds:.1f}", "")
    table.add_row("megabytes sent per global step, all peers", f"{result.bytes_per_step / 1e6:.2f}", "")
    table.add_row("rounds that failed", str(result.averaging_failures), "")
    Console().print(table)


if __name__ == "__main__":
    main()
