"""From a bare Debian to the first credited sample by one line: `curl -LsSf LINK/join.sh | sh`, without a question.

    python -m benchmarks.joining [--times 3] [--root FOLDER] [--json FILE]

The volunteer's machine is a root file system that debootstrap makes (minbase with curl, ca-certificates, python3 and
python3-venv), each time in a fresh overlay: no Python packages, no compiler. The run is open, and its coordinator is on
the loopback of the same machine and shares its processors. The line has no terminal, so nobody could answer.

`seconds` is from the line to the first credited sample; `without_torch` leaves out what installing PyTorch took, whose
download is as long as the line is thin. Packages come from where pip of this machine gets them. `second_start` is the
same line again, when the program is installed. `left_behind` counts the files that `sahaj leave` leaves of those that
joining has made.

Needs root on a Debian that lets it mount, debootstrap, the network, and 4 GB of disk.
"""

import json
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

import typer
from rich.console import Console
from rich.table import Table

from app.demo.corpus import prepare_corpus
from app.demo.demo import DEFAULT_RUN
from benchmarks.support import command
from benchmarks.support.hosted_peers import BenchmarkFailed
from coordinator.join_script.script import one_line
from swarm.files import write_file
from swarm.run_file import dump_run, load_run, parse_run
from tests.support.small_swarm import SmallSwarm, run_content
from tokenizer.command import train_from_run

MIRROR, SUITE = "http://deb.debian.org/debian", "bookworm"
PACKAGES = "ca-certificates,curl,python3,python3-venv"
READY = "etc/sahaj-benchmark"  # of a root that is complete
STEP_SAMPLES = 1024  # some seconds of a trainer
NAME = "volunteer"
PATIENCE = 1800.0  # seconds for one start
TORCH, PROGRAM, JOINING = WORDS = ("Installing PyTorch", "Installing the program", "Joining ")
CREDITED = "credited"  # in the ledger: the volunteer is the only trainer
POLL = 0.05  # seconds
ENTER = """
mount -t overlay overlay -o "lowerdir=$ROOT,upperdir=$STAGE/upper,workdir=$STAGE/work" "$STAGE/root"
for system in dev proc sys; do mount --rbind "/$system" "$STAGE/root/$system"; done
for seen in $SEEN; do mkdir -p "$STAGE/root$seen" && mount --bind "$seen" "$STAGE/root$seen"; done
cp /etc/resolv.conf "$STAGE/root/etc/resolv.conf"
exec chroot "$STAGE/root" "$@"
"""


@dataclass(frozen=True)
class Joined:
    """One machine, from the line to the end of `sahaj leave`; times in seconds."""

    seconds: float
    without_torch: float
    installing_torch: float
    installing_program: float
    first_credit: float  # from the program's start
    second_start: float
    megabytes: int  # that joining has put on the machine
    left_behind: int


@dataclass(frozen=True)
class Result:
    """Medians and the worst of all machines."""

    times: int
    seconds: float
    without_torch: float
    most_without_torch: float
    second_start: float
    megabytes: int
    left_behind: int
    machines: list[Joined]


def main(
    times: Annotated[int, typer.Option(min=1, help="Fresh machines, one after the other.")] = 1,
    root: Annotated[Path | None, typer.Option(help="Keep the bare Debian here, for the next time.")] = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the figures to this file.")] = None,
) -> None:
    """Measure, print a table, and write the JSON file if one is asked for."""
    console = Console(stderr=True)
    with tempfile.TemporaryDirectory(prefix="sahaj-bench-") as name:
        folder = Path(name)
        debian = bare_debian(root or folder / "debian", console)
        swarm = open_run(folder)
        try:
            swarm.coordinator()
            machines = []
            for number in range(times):
                machines.append(joined(folder / f"machine{number}", debian, swarm))
                console.print(f"machine {number + 1}: {machines[-1]}", highlight=False)
        finally:
            swarm.kill_all()
    result = Result(
        times=times,
        seconds=statistics.median(one.seconds for one in machines),
        without_torch=statistics.median(one.without_torch for one in machines),
        most_without_torch=max(one.without_torch for one in machines),
        second_start=statistics.median(one.second_start for one in machines),
        megabytes=max(one.megabytes for one in machines),
        left_behind=max(one.left_behind for one in machines),
        machines=machines,
    )
    _print(result)
    if json_file:
        write_file(json_file, json.dumps(asdict(result), indent=2) + "\n")


def bare_debian(root: Path, console: Console) -> Path:
    """A root file system with a few packages.

    Raises:
        BenchmarkFailed: it cannot be made here.
    """
    if os.geteuid() or not shutil.which("unshare"):
        raise BenchmarkFailed("this benchmark needs root and unshare")
    if not (root / READY).exists():
        if not shutil.which("debootstrap"):
            raise BenchmarkFailed("debootstrap is missing: apt-get install debootstrap")
        console.print("Making a bare Debian ...")
        make = [
            "unshare",
            "--mount",
            "debootstrap",
            "--variant=minbase",
            f"--include={PACKAGES}",
            SUITE,
            str(root),
            MIRROR,
        ]
        made = subprocess.run(make, check=False, capture_output=True, text=True)
        if made.returncode:
            raise BenchmarkFailed(f"debootstrap failed: {(made.stdout + made.stderr)[-1000:]}")
        (root / READY).touch()
    return root


def open_run(folder: Path) -> SmallSwarm:
    """A run with a small model, which anybody may join."""
    prepare_corpus(load_run(DEFAULT_RUN), None, folder / "corpus")
    content = run_content(folder / "corpus", target_batch_size=STEP_SAMPLES, total_steps=10)
    write_file(folder / "run.yaml", dump_run(parse_run(content, folder / "run.yaml")))
    train_from_run(folder / "run.yaml", console=Console(stderr=True))
    made = (folder / "swarm", folder / "corpus", folder / "tokenizer")
    return SmallSwarm(*made, target_batch_size=STEP_SAMPLES, total_steps=100_000)


class Machine:
    """A volunteer's, whose files are in `stage`."""

    def __init__(self, stage: Path, debian: Path, text: Path):
        self._stage = stage
        for part in ("upper", "work", "root"):
            (stage / part).mkdir(parents=True)
        pip = pip_settings()
        # programs that a bare Debian has not: what pip reads from this machine's disk, and the run's text
        seen = sorted({str(path) for value in pip.values() for path in local_folders(value)} | {str(text)})
        self._mounting = {"PATH": os.environ["PATH"], "ROOT": str(debian), "STAGE": str(stage), "SEEN": " ".join(seen)}
        self._inside = {"HOME": "/root", "PATH": "/usr/bin:/bin", "PYTHONUNBUFFERED": "1", "SAHAJ_NAME": NAME} | pip

    def start(self, line: str, log: Path) -> "subprocess.Popen[str]":
        """Type a line into its shell; what it says goes to the log as well."""
        inside = ["env", "-i", *(f"{name}={value}" for name, value in self._inside.items()), "sh", "-c"]
        with log.open("w") as out:
            return subprocess.Popen(
                ["unshare", "--mount", "sh", "-ec", ENTER, "sh", *inside, f"trap : INT; {line}"],  # outlives Ctrl-C
                env=self._mounting,
                start_new_session=True,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                text=True,
            )

    def files(self) -> dict[str, int]:
        """What has been written on it, and the bytes of each."""
        upper = self._stage / "upper"
        found = ((path, path.lstat()) for path in upper.rglob("*") if path.is_file() and not path.is_symlink())
        return {str(path.relative_to(upper)): status.st_blocks * 512 for path, status in found}


def joined(stage: Path, debian: Path, swarm: SmallSwarm) -> Joined:
    """Join from a fresh machine, once more, and leave.

    Raises:
        BenchmarkFailed: something did not go as it should.
    """
    machine = Machine(stage, debian, swarm.text.parent)
    line = one_line(swarm.url)
    first = watch(machine, line, stage / "first.log", swarm.done)
    megabytes = sum(machine.files().values()) / 1e6
    second = watch(machine, line, stage / "second.log", swarm.done)
    if TORCH in second:
        raise BenchmarkFailed("the second start has installed something")
    leave = f"/root/.cache/sahaj/program-*/venv/bin/sahaj leave {swarm.url} --yes"
    if machine.start(leave, stage / "leave.log").wait(PATIENCE):
        raise BenchmarkFailed((stage / "leave.log").read_text()[-1000:])
    left = [name for name in machine.files() if not name.startswith("etc/resolv.conf")]
    installing_torch = first[PROGRAM] - first[TORCH]
    return Joined(
        seconds=round(first[CREDITED], 1),
        without_torch=round(first[CREDITED] - installing_torch, 1),
        installing_torch=round(installing_torch, 1),
        installing_program=round(first[JOINING] - first[PROGRAM], 1),
        first_credit=round(first[CREDITED] - first[JOINING], 1),
        second_start=round(second[CREDITED], 1),
        megabytes=round(megabytes),
        left_behind=len(left),
    )


def watch(machine: Machine, line: str, log: Path, done: Callable[[], int]) -> dict[str, float]:
    """Type the line, wait for the first credited sample, and press Ctrl-C.

    Args:
        done: tells how many global steps the ledger has.

    Returns:
        After how many seconds each of the words was said, and the sample credited.

    Raises:
        BenchmarkFailed: it ended without a sample, or did not end after it.
    """
    before, began, after = done(), time.monotonic(), dict[str, float]()
    process = machine.start(line, log)
    try:
        while CREDITED not in after:
            said = log.read_text(errors="replace")
            new = [word for word in WORDS if word in said and word not in after]
            new += [CREDITED] if done() > before else []
            after |= dict.fromkeys(new, time.monotonic() - began)
            if process.poll() is not None or time.monotonic() - began > PATIENCE:
                raise BenchmarkFailed(f"no sample was credited: {said[-2000:]}")
            time.sleep(POLL)
        os.killpg(process.pid, signal.SIGINT)
        if process.wait(60.0):
            raise BenchmarkFailed(f"it ended with {process.returncode}: {log.read_text()[-1000:]}")
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    return after


def pip_settings() -> dict[str, str]:
    """What pip of this machine is told, as environment variables."""
    told = subprocess.run([sys.executable, "-m", "pip", "config", "list"], check=True, capture_output=True, text=True)
    settings = re.findall(r"^(?:global|:env:)\.([a-z-]+)='(.*)'$", told.stdout, re.MULTILINE)
    return {f"PIP_{name.upper().replace('-', '_')}": value for name, value in settings}


def local_folders(setting: str) -> set[Path]:
    """The folders of this machine that a setting names: /opt/packages of file:///opt/packages/simple."""
    paths = [Path(urlsplit(word).path) for word in setting.split() if word.startswith(("/", "file:///"))]
    return {Path(*path.parts[:3]) for path in paths if path.exists() and len(path.parts) > 2}


def _print(result: Result) -> None:
    table = Table(title=f"One line on a bare Debian, {result.times} times: one command, no question")
    table.add_column("")
    table.add_column("", justify="right")
    for name in ("seconds", "without_torch", "most_without_torch", "second_start"):
        table.add_row(name.replace("_", " "), f"{getattr(result, name):.1f} s")
    table.add_row("on the disk", f"{result.megabytes:,} MB")
    table.add_row("files left behind", str(result.left_behind))
    Console().print(table)


if __name__ == "__main__":
    command.run(main)
