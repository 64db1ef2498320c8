"""How many simulated courses of a run break an invariant of the log, and which broken rules the simulation finds.

    python -m benchmarks.simulation [--seeds 1000] [--seed K] [--no-mutants] [--json FILE]

Each seed is one course of events with faults: see `tests/simulation`. What counts: no seed breaks an invariant, and
each mutant, a protocol with one rule broken, breaks one in some seed.
"""

import json
import multiprocessing
import os
import resource
import signal
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import track
from rich.table import Table

from benchmarks.support import command
from swarm.errors import SahajError
from swarm.files import write_file
from tests.simulation.course import Course, run
from tests.simulation.mutants import MUTANTS, find

SEARCHED = 300  # seeds, most, for each mutant


@dataclass(frozen=True)
class Found:
    """What became of a mutant."""

    mutant: str
    seed: int | None  # one that breaks an invariant
    violation: str = ""


@dataclass(frozen=True)
class Figures:
    """Of all courses without mutants, but for the real seconds. Hours, events and the rest are sums."""

    seeds: int
    violations: dict[int, str]  # by seed
    virtual_hours: float
    real_seconds: float  # mutants included
    processor_seconds: float  # of all processes; tells the speed on a machine that does other things, too
    steps: int  # headers that were committed
    resets: int
    events: int


def main(
    seeds: Annotated[int, typer.Option(min=1, help="Run the seeds from 1 to this one.")] = 1000,
    seed: Annotated[int | None, typer.Option(min=1, help="Run only this seed, without mutants.")] = None,
    mutants: Annotated[
        bool, typer.Option(help=f"Search each mutant in its own seed, then in the first {SEARCHED}.")
    ] = True,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the figures to this file.")] = None,
) -> None:
    """Simulate, print a table, and write the JSON file if one is asked for. Status 1: an invariant was broken."""
    with multiprocessing.get_context("spawn").Pool(len(os.sched_getaffinity(0)), _leave_signals_to_parent) as pool:
        began, chosen = time.monotonic(), range(1, seeds + 1) if seed is None else [seed]
        searched = range(len(MUTANTS)) if mutants and seed is None else range(0)
        searches = pool.imap(_search, searched)  # the longest tasks come first
        courses = list(track(pool.imap_unordered(run, chosen), "seeds", total=len(chosen), transient=True))
        found = list(track(searches, "mutants", total=len(searched), transient=True))
        seconds = time.monotonic() - began
    pool.join()
    figures = _sum(courses, seconds, resource.getrusage(resource.RUSAGE_CHILDREN))
    _print(figures, found)
    if json_file:
        content = {
            **asdict(figures),
            "mutants": len(found),
            "mutants_found": sum(one.seed is not None for one in found),
        }
        content["seeds_of_mutants"] = {one.mutant: one.seed for one in found}
        write_file(json_file, json.dumps(content, indent=2) + "\n")
    if figures.violations:
        raise SahajError(f"{len(figures.violations)} of {len(courses)} seeds break an invariant")


def _leave_signals_to_parent() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _search(index: int) -> Found:
    mutant = MUTANTS[index]
    course = find(mutant, range(1, SEARCHED + 1))
    return Found(mutant.name, course.seed, course.violation) if course else Found(mutant.name, None)


def _sum(courses: Sequence[Course], seconds: float, used: resource.struct_rusage) -> Figures:
    return Figures(
        seeds=len(courses),
        violations={one.seed: one.violation for one in sorted(courses, key=lambda one: one.seed) if one.violation},
        virtual_hours=round(sum(one.seconds for one in courses) / 3600, 2),
        real_seconds=round(seconds, 1),
        processor_seconds=round(used.ru_utime + used.ru_stime, 1),
        steps=sum(one.commits for one in courses),
        resets=sum(one.resets for one in courses),
        events=sum(one.events for one in courses),
    )


def _print(figures: Figures, found: Sequence[Found]) -> None:
    console = Console()
    table = Table("", "", title="Simulated courses", show_header=False)
    for name, value in asdict(figures).items():
        table.add_row(name.replace("_", " "), f"{len(value) if name == 'violations' else value:,}")
    console.print(table)
    for seed, violation in figures.violations.items():
        console.print(f"seed {seed}: {violation}\n  again: python -m benchmarks.simulation --seed {seed}", markup=False)
    if found:
        mutants = Table("mutant", "seed", "what it breaks", title="Mutants")
        for one in found:
            mutants.add_row(one.mutant, "not found" if one.seed is None else str(one.seed), one.violation)
        console.print(mutants)


if __name__ == "__main__":
    command.run(main)
