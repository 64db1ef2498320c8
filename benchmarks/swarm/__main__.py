"""What averaging costs: k trainers in a swarm beside k that do not communicate.

    python -m benchmarks.swarm [--trainers 2] [--seconds 60] [--repeats 3] [--json FILE]

All sides run the same model on the same text with the same optimizer, one thread a trainer. What counts is the share
of the processors' time in which gradients are computed. Averaging, its helper processes and the coordinator take
theirs from it, and nothing else does. Speeds alone cannot tell: shared machines drift by more than that.

*Efficiency* is that share in a swarm, its coordinator on the same cores, over that of as many trainers that do not
communicate. The two take turns; the speeds are printed, too.
"""

import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
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
from app.demo.peers import Peer, start_peer, wait_for_address
from benchmarks.support import command
from benchmarks.swarm.worker import Measured, read_measured
from coordinator.state_folder import URL
from swarm.files import write_file
from swarm.run_file import dump_run, load_run, parse_run
from tokenizer.command import train_from_run

ENDLESS = 100_000  # global steps: the benchmark ends by time
STEP_SECONDS = 20  # DeDLOC's large batches take minutes; this keeps the benchmark short and is the harder case
SHORT_STEP = 1024  # samples, while the speed is measured


@dataclass(frozen=True)
class Comparison:
    """One swarm beside the same trainers on their own; speeds in samples per second, medians."""

    trainers: int
    efficiency: float  # by the share of the processors' time for computing
    speed_ratio: float  # of the samples per second, which drift between turns
    swarm_samples_per_second: float
    separate_samples_per_second: float
    averaging_seconds: float  # from the beginning of a round to its end, while computing goes on
    global_step_seconds: float
    bytes_per_step: int  # sent by all peers together, DHT and coordinator included
    averaging_failures: int
    efficiencies: list[float]  # of each repeat


def main(
    trainers: Annotated[int, typer.Option(min=1)] = 2,
    seconds: Annotated[float, typer.Option(min=1.0, help="Of each measurement, after a warm-up.")] = 60.0,
    repeats: Annotated[int, typer.Option(min=1, help="The median counts.")] = 3,
    step_samples: Annotated[int | None, typer.Option(help="Target batch size; by default 20 s worth.")] = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the figures to this file.")] = None,
) -> None:
    """Measure, print a table, and write the JSON file if one is asked for."""
    with tempfile.TemporaryDirectory(prefix="sahaj-bench-") as folder:
        result = compare(Path(folder), trainers, seconds, repeats, step_samples)
    _print(result)
    if json_file:
        write_file(json_file, json.dumps(asdict(result), indent=2) + "\n")


def compare(folder: Path, trainers: int, seconds: float, repeats: int, step_samples: int | None) -> Comparison:
    """Measure both sides in turn, `repeats` times."""
    console = Console(stderr=True)
    _prepare(folder, step_samples or SHORT_STEP, console)
    if step_samples is None:
        speed = _speed(_separate(folder / "speed", trainers, seconds / 4))
        _prepare(folder, max(64, round(STEP_SECONDS * speed)), console)
    swarms: list[float] = []
    separates: list[float] = []
    efficiencies: list[float] = []
    rounds: list[float] = []
    step_bytes: list[float] = []
    step_times: list[float] = []
    failures = 0
    for number in range(repeats):
        separate = _separate(folder / f"separate{number}", trainers, seconds)
        separates.append(_speed(separate))
        sent = psutil.net_io_counters(pernic=True)["lo"].bytes_sent
        with _swarm(folder / f"swarm{number}", folder / "run.yaml", trainers, seconds) as workers:
            swarm = _results(workers)
        sent = psutil.net_io_counters(pernic=True)["lo"].bytes_sent - sent
        swarms.append(_speed(swarm))
        efficiencies.append(_share(swarm) / _share(separate))
        rounds += [duration for one in swarm for duration in one.round_seconds]
        failures += sum(one.failures for one in swarm)
        steps = max(one.steps for one in swarm)
        step_bytes.append(sent / max(1, steps))
        taken = max(one.steps_in_window for one in swarm)
        step_times.append(max(one.seconds for one in swarm) / max(1, taken))
        console.print(
            f"repeat {number + 1}: swarm {swarms[-1]:.1f}, separate {separates[-1]:.1f} samples/s, "
            f"efficiency {efficiencies[-1]:.3f}"
        )
    return Comparison(
        trainers=trainers,
        efficiency=round(statistics.median(efficiencies), 4),
        speed_ratio=round(statistics.median(one / other for one, other in zip(swarms, separates, strict=True)), 4),
        swarm_samples_per_second=round(statistics.median(swarms), 1),
        separate_samples_per_second=round(statistics.median(separates), 1),
        averaging_seconds=round(statistics.median(rounds), 2) if rounds else 0.0,
        global_step_seconds=round(statistics.median(step_times), 1),
        bytes_per_step=round(statistics.median(step_bytes)),
        averaging_failures=failures,
        efficiencies=[round(one, 4) for one in efficiencies],
    )


def _prepare(folder: Path, step_samples: int, console: Console) -> None:
    """The demo's run with another target batch size, its text and tokenizer made once."""
    template = load_run(DEFAULT_RUN)
    content = template.model_dump()
    content["tokenizer"]["path"] = "tokenizer"
    content["data"]["train"] = [{"path": "corpus/train.jsonl"}]
    content["data"]["validation"] = []
    content["optimizer"] |= {"total_steps": ENDLESS, "warmup_steps": 100}
    content["averaging"] |= {"target_batch_size": step_samples, "overlap": True}
    content["coordinator"] |= {"checkpoint_every": ENDLESS}
    content["access"] = {"open": True, "host": "127.0.0.1", "port": 0}
    if not (folder / "corpus").exists():
        prepare_corpus(template, None, folder / "corpus")
    run = parse_run(content, folder / "run.yaml")
    write_file(folder / "run.yaml", dump_run(run))
    if not (folder / "tokenizer").exists():
        train_from_run(folder / "run.yaml", console=console)


def _separate(folder: Path, trainers: int, seconds: float) -> list[Measured]:
    with _working(folder, folder.parent / "run.yaml", trainers, seconds, []) as workers:
        return _results(workers)


@contextlib.contextmanager
def _swarm(folder: Path, file: Path, trainers: int, seconds: float) -> Iterator[list[Peer]]:
    """Trainers and their coordinator, with the run in `file`."""
    state = folder / "coordinator"
    coordinator = start_peer(
        "coordinator", ["coordinator", str(file), "--state", str(state)], folder / "coordinator.log"
    )
    try:
        url = wait_for_address(coordinator, state / URL)
        with _working(folder, file, trainers, seconds, ["--url", url]) as workers:
            yield workers
    finally:
        coordinator.kill()


@contextlib.contextmanager
def _working(folder: Path, file: Path, trainers: int, seconds: float, extra: list[str]) -> Iterator[list[Peer]]:
    """Trainers side by side; none of them outlives this."""
    workers: list[Peer] = []
    try:
        workers.extend(_start(folder, file, number, seconds, extra) for number in range(trainers))
        yield workers
    finally:
        for worker in workers:
            worker.kill()


def _results(workers: list[Peer]) -> list[Measured]:
    """What they measured, once they have."""
    return [_result(worker) for worker in workers]


def _start(folder: Path, file: Path, number: int, seconds: float, extra: list[str]) -> Peer:
    folder.mkdir(parents=True, exist_ok=True)
    line = [sys.executable, "-m", "benchmarks.swarm.worker", str(file)]
    line += [str(folder / f"worker{number}.json"), "--number", str(number), "--seconds", str(seconds), *extra]
    path = folder / f"worker{number}.log"
    with path.open("wb") as log:
        environment = os.environ | {"OMP_NUM_THREADS": "1"}
        process = subprocess.Popen(line, stdout=log, stderr=log, env=environment, start_new_session=True)
    return Peer(f"worker{number}", process, path, client_mode=False)


def _result(worker: Peer) -> Measured:
    if worker.process.wait(timeout=1200) != 0:
        raise SystemExit(f"a trainer failed:\n{worker.log.read_text(errors='replace')[-2000:]}")
    return read_measured(worker.log.with_suffix(".json"))


def _speed(measured: list[Measured]) -> float:
    return sum(one.samples / one.seconds for one in measured)


def _share(measured: list[Measured]) -> float:
    return statistics.mean(one.share for one in measured)


def _print(result: Comparison) -> None:
    table = Table("", f"{result.trainers} trainers in a swarm", "separate")
    table.add_row(
        "samples per second",
        f"{result.swarm_samples_per_second:.1f}",
        f"{result.separate_samples_per_second:.1f}",
    )
    table.add_row("efficiency: share of processor time for computing", f"{result.efficiency:.3f}", "1")
    table.add_row("seconds of averaging, beside computing", f"{result.averaging_seconds:.2f}", "")
    table.add_row("seconds of a global step", f"{result.global_step_seconds:.1f}", "")
    table.add_row("megabytes sent per global step, all peers", f"{result.bytes_per_step / 1e6:.2f}", "")
    table.add_row("rounds that failed", str(result.averaging_failures), "")
    Console().print(table)


if __name__ == "__main__":
    command.run(main)
