"""A small swarm that volunteers join, leave and die in: what is lost, counted twice, or never let go of.

    python -m benchmarks.soak [--minutes 60] [--kills 1] [--seed 0] [--json FILE]

A coordinator and two to four trainers that joined by its link. At random but at a set rate somebody joins, leaves as
by Ctrl-C, or is killed with all its helpers; now and then it is the coordinator. In the end the sums in the ledger are
compared with the trainers' own logs and with the headers of the log. Memory and open files are compared
with those of a minute after a process's start. Run it from the repository's root.
"""

import contextlib
import json
import random
import tempfile
import time
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from app.demo.corpus import prepare_corpus
from app.demo.demo import DEFAULT_RUN
from app.demo.peers import Peer
from benchmarks.soak.processes import Growth, Watch
from benchmarks.soak.steps import Steps
from benchmarks.support import command
from swarm.files import write_file
from swarm.run_file import dump_run, load_run, parse_run
from tests.faults.agreement import compare
from tests.support.small_swarm import TAKEN_OVER, SmallSwarm, newest_step_said, run_content, text_of
from tokenizer.command import train_from_run

STEP_SAMPLES = 4096  # some three seconds of two trainers on two cores
FEWEST, MOST = 2, 4  # trainers
COORDINATORS = 0.2  # of the kills
COMINGS = 1.5  # per minute: as many join, and as many leave by themselves as are not killed
LOOK_EVERY = 5.0  # seconds
STEPS_EVERY = 0.5  # seconds between two looks at the newest global steps
SETTLED = 10.0  # seconds in which the processes of a peer that has ended are gone


@dataclass(frozen=True)
class Result:
    """What came of it."""

    minutes: float
    global_steps: int
    samples: int
    steps_lost: int  # that somebody had finished, and then nobody that lived had any more, though done again perhaps
    samples_lost: int  # that were averaged, and are not in the ledger
    samples_double: int  # that are in the ledger, and were not averaged
    flags: list[str]  # what honest peers were accused of
    failed_rounds: int  # of all trainers
    joins: int
    leaves: int
    kills: int
    coordinator_kills: int
    memory_growth: float  # of the process that grew most, as a fraction, among those that lived for minutes
    leaked_processes: int
    leaked_files: int  # of the process with most more of them than a minute after its start
    tracebacks: int  # in what peers said
    growths: list[Growth]  # of each process
    places: list[str]  # where sums differ


def main(
    minutes: Annotated[float, typer.Option(min=1.0, help="How long.")] = 60.0,
    kills: Annotated[float, typer.Option(min=0.0, help="Kills a minute.")] = 1.0,
    seed: Annotated[int, typer.Option(help="Of what happens when.")] = 0,
    keep: Annotated[Path | None, typer.Option(help="A new folder to keep all files of the swarm in.")] = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the figures to this file.")] = None,
) -> None:
    """Run it, print a table, and write the JSON file if one is asked for."""
    with contextlib.ExitStack() as stack:
        folder = keep or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="sahaj-soak-")))
        soak = Soak(_prepare(folder), kills, random.Random(seed))
        try:
            result = soak.run(60 * minutes)
        finally:
            soak.swarm.kill_all()
    _print(result)
    if json_file:
        write_file(json_file, json.dumps(asdict(result), indent=2) + "\n")


class Soak:
    """Joins, leaves and kills; counts them."""

    def __init__(self, swarm: SmallSwarm, kills: float, chance: random.Random):
        self.swarm, self._chance = swarm, chance
        self._rates = {"kill": kills / 60, "join": (kills + COMINGS) / 60, "leave": COMINGS / 60}  # per second
        self._happened: Counter[str] = Counter()
        self._watch = Watch()
        self._ended: dict[int, float] = {}  # when, by process id
        self._steps = Steps()
        self._lived: list[Peer] = []  # at the last look at them
        self._console = Console(stderr=True)
        self._names = 0

    def run(self, seconds: float) -> Result:
        """Let things happen for so long, then have everybody leave, and count."""
        self.swarm.coordinator()
        for _ in range(FEWEST):
            self._join()
        self.swarm.wait(lambda: any(one.peers == FEWEST for one in self.swarm.steps()), "global step of all trainers")
        until, next_look, next_steps = time.monotonic() + seconds, 0.0, 0.0
        due = {event: self._next(event) for event in self._rates}
        while time.monotonic() < until:
            now = time.monotonic()
            for event in [one for one, at in due.items() if now >= at]:
                due[event] = self._next(event)
                self._happen(event)
            if now >= next_look:
                next_look = now + LOOK_EVERY
                self._look()
            if now >= next_steps:
                next_steps = now + STEPS_EVERY
                self._look_at_steps()
            time.sleep(0.2)
        return self._count(seconds)

    def _next(self, event: str) -> float:
        rate = self._rates[event]
        return time.monotonic() + (self._chance.expovariate(rate) if rate else float("inf"))

    def _happen(self, event: str) -> None:
        trainers = self._trainers()
        if event == "join" and len(trainers) < MOST:
            self._join()
        elif event == "leave" and len(trainers) > FEWEST:
            leaver = self._chance.choice(trainers)
            self._tell(f"{leaver.name} leaves")
            leaver.stop(patience=30.0)
            self._happened["leave"] += 1
        elif event == "kill":
            self._kill(trainers)

    def _kill(self, trainers: list[Peer]) -> None:
        coordinator = next(one for one in self._living() if one.name == "coordinator")
        victim = coordinator if self._chance.random() < COORDINATORS else self._chance.choice(trainers)
        self._tell(f"{victim.name} is killed")
        victim.kill()
        self._happened["kill"] += 1
        if victim is coordinator:
            self._happened["kill of the coordinator"] += 1
            self.swarm.coordinator()
        while len(self._trainers()) < FEWEST:
            self._join()

    def _join(self) -> None:
        self._names += 1
        name = f"user-{self._names}"
        self._tell(f"{name} joins")
        self.swarm.trainer(name)
        self._happened["join"] += 1

    def _look(self) -> None:
        now = time.monotonic()
        for peer in self.swarm.peers:
            if peer.process.poll() is not None:
                self._ended.setdefault(peer.process.pid, now)
        ended = [one for one in self.swarm.peers if self._ended.get(one.process.pid, now) < now - SETTLED]
        self._watch.look(self._living(), ended)

    def _look_at_steps(self) -> None:
        living = self._living()
        held = max((_newest(one) for one in living), default=0)
        said = max((_newest(one) for one in self._lived), default=0)
        self._steps.look(held, said, time.monotonic())
        self._lived = living

    def _count(self, seconds: float) -> Result:
        growths, swarm = self._watch.growths(), self.swarm
        for trainer in self._trainers():
            trainer.stop(patience=30.0)
        reached = max(newest_step_said(one) for one in swarm.peers)
        peers = swarm.folder / "peers"
        deadline = time.monotonic() + 60.0
        while (agreement := compare(peers, swarm.state, swarm.ledger)).lost and time.monotonic() < deadline:
            time.sleep(1.0)
        coordinator = next(one for one in self._living() if one.name == "coordinator")
        held = newest_step_said(coordinator)
        coordinator.stop(patience=60.0)
        time.sleep(SETTLED)
        self._look()
        totals = swarm.ledger.totals()
        return Result(
            minutes=seconds / 60,
            global_steps=swarm.done(),
            samples=totals.samples,
            steps_lost=self._steps.lost + max(0, reached - held),
            samples_lost=agreement.lost,
            samples_double=agreement.double,
            flags=[f"{one.user}: {one.what} ({one.times} times)" for one in swarm.ledger.rounds.flags()],
            failed_rounds=totals.averaging_failures,
            joins=self._happened["join"],
            leaves=self._happened["leave"],
            kills=self._happened["kill"],
            coordinator_kills=self._happened["kill of the coordinator"],
            memory_growth=max((one.memory for one in growths), default=0.0),
            leaked_processes=len(self._watch.leaked),
            leaked_files=max(0, *(one.files for one in growths)) if growths else 0,
            tracebacks=sum("Traceback" in text_of(one) for one in swarm.peers),
            growths=growths,
            places=[*agreement.places, *sorted(self._watch.leaked)],
        )

    def _living(self) -> list[Peer]:
        return [one for one in self.swarm.peers if one.process.poll() is None]

    def _trainers(self) -> list[Peer]:
        return [one for one in self._living() if one.name != "coordinator"]

    def _tell(self, what: str) -> None:
        self._console.print(f"global step {self.swarm.done()}: {what}", highlight=False)


def _newest(peer: Peer) -> int:
    """The newest global step that a peer has finished or taken over."""
    return max(newest_step_said(peer), *map(int, peer.said(TAKEN_OVER)), 0)


def _prepare(folder: Path) -> SmallSwarm:
    prepare_corpus(load_run(DEFAULT_RUN), None, folder / "corpus")
    content = run_content(folder / "corpus", target_batch_size=STEP_SAMPLES, total_steps=10)
    write_file(folder / "run.yaml", dump_run(parse_run(content, folder / "run.yaml")))
    train_from_run(folder / "run.yaml", console=Console(stderr=True))
    return SmallSwarm(
        folder / "swarm",
        folder / "corpus",
        folder / "tokenizer",
        target_batch_size=STEP_SAMPLES,
        total_steps=100_000,
    )


def _print(result: Result) -> None:
    table = Table(title=f"{result.minutes:.0f} minutes, {result.kills} kills, {result.global_steps} global steps")
    table.add_column("")
    table.add_column("", justify="right")
    for name in ("steps_lost", "samples_lost", "samples_double", "leaked_processes", "leaked_files", "failed_rounds"):
        table.add_row(name.replace("_", " "), f"{getattr(result, name):,}")
    table.add_row("memory growth", f"{result.memory_growth:.1%}")
    console = Console()
    console.print(table)
    for growth in result.growths:
        words = f"{growth.megabytes} MB after {growth.minutes} min, {growth.memory:+.1%}"
        words += f", {growth.files:+d} files, {growth.descriptors:+d} descriptors"
        console.print(f"{growth.name}: {words}", highlight=False)
    for place in [*result.flags, *result.places]:
        console.print(place, highlight=False)


if __name__ == "__main__":
    command.run(main)
