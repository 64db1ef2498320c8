"""The mixture of experts: throughput over slow lines, learning with failures, and masked LM against a dense model.

    python -m benchmarks.experts [--corpus FILE] [--only throughput] [--processes 1] [--json FILE]

What is compared is told in `throughput.py`, `convergence.py` and `masked_lm.py`, beside this file. The JSON holds the
courses of learning, and batches a second by delay in milliseconds: `pipeline`, `dmoe` with most trainers in flight,
and `dmoe_by_trainers`. What counts: `dmoe` at 200 ms is at least 0.8 of `dmoe` at 0, and `pipeline` is not; nets with
16 and 64 experts that are late and fail learn no worse than the dense one; the loss of masked LM is lower with experts
than with the dense term, within 0.02 nats of that when calls fail, and the trunk alone within 0.05 nats of dense.
"""

import json
import statistics
from collections.abc import Sequence
from dataclasses import asdict
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from benchmarks.experts import convergence, masked_lm, throughput
from benchmarks.support import command
from swarm.files import write_file

DELAYS = (0, 50, 100, 200)  # milliseconds
TRAINERS = (1, 4, 16)


class Part(str, Enum):
    """What can be measured."""

    throughput = "throughput"
    convergence = "convergence"
    masked_lm = "masked-lm"


def main(
    corpus: Annotated[Path | None, typer.Option(help="Text for masked LM, as JSONL; else Python's manual.")] = None,
    only: Annotated[list[Part] | None, typer.Option(help="Measure this alone; may be repeated.")] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Of each course of learning.")] = 3,
    seconds: Annotated[float, typer.Option(min=1, help="Of each measurement of throughput.")] = 8,
    processes: Annotated[int, typer.Option(min=1, help="Models that learn masked LM at a time.")] = 1,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the figures to this file.")] = None,
) -> None:
    """Measure, and print tables."""
    parts, console, see = only or list(Part), Console(), Console(stderr=True).print
    figures: dict[str, Any] = {}
    if Part.throughput in parts:
        speeds = throughput.measure(DELAYS, TRAINERS, seconds, see)
        figures |= throughput_figures(speeds)
        console.print(throughput_table(speeds))
    if Part.convergence in parts:
        courses = convergence.measure(seeds, see)
        figures["convergence"] = {name: [asdict(one) for one in each] for name, each in courses.items()}
        console.print(
            learning_table("Digits: held-out accuracy and loss", courses, ("accuracy", "loss", "steps_to_goal"))
        )
    if Part.masked_lm in parts:
        outcomes = masked_lm.measure(corpus, seeds, processes, see)
        figures["masked_lm"] = {name: [asdict(one) for one in each] for name, each in outcomes.items()}
        console.print(learning_table("Masked LM: held-out loss, nats", outcomes, ("loss", "trunk_alone")))
    if json_file is not None:
        write_file(json_file, json.dumps(figures, indent=2) + "\n")


def throughput_figures(speeds: throughput.Throughput) -> dict[str, Any]:
    """As they are in the JSON file."""
    by_trainers = {str(count): _rounded(by_delay) for count, by_delay in speeds.dmoe.items()}
    return {
        "pipeline": _rounded(speeds.pipeline),
        "dmoe": by_trainers[str(max(speeds.dmoe))],
        "dmoe_by_trainers": by_trainers,
    }


def _rounded(by_delay: dict[int, float]) -> dict[str, float]:
    return {str(delay): round(speed, 3) for delay, speed in by_delay.items()}


def throughput_table(speeds: throughput.Throughput) -> Table:
    """Batches a second, and in brackets the share of those without delay."""
    sides = {"pipeline": speeds.pipeline} | {
        f"DMoE, {count} in flight": by_delay for count, by_delay in speeds.dmoe.items()
    }
    shown = Table("", *(f"{delay} ms" for delay in DELAYS), title="Batches a second, by delay")
    for name, by_delay in sides.items():
        shown.add_row(name, *(f"{speed:.2f} ({speed / by_delay[0]:.2f})" for speed in by_delay.values()))
    return shown


def learning_table(title: str, courses: dict[str, Any], columns: Sequence[str]) -> Table:
    """Means over the seeds, and the distance of the lowest and highest of them."""
    shown = Table("", *columns, title=title)
    for name, each in courses.items():
        shown.add_row(name, *(_mean_and_spread([getattr(one, column) for one in each]) for column in columns))
    return shown


def _mean_and_spread(values: Sequence[float | None]) -> str:
    known = [one for one in values if one is not None]
    if len(known) < len(values):
        return "not reached"
    return f"{statistics.mean(known):.3f} ± {(max(known) - min(known)) / 2:.3f}"


if __name__ == "__main__":
    command.run(main)
