"""The error of the mean between real averagers, in groups of two, four ... and in one of all."""

import json
import math
import statistics
import subprocess
import tempfile
import time
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table

from benchmarks.moshpit_worker import Averaged, Task, plan, work
from swarm.errors import SahajError
from tests.forked import start_function

PATIENCE = 60.0  # seconds for a global step and the start, on a busy machine
EXACT = 1e-10  # a mean squared error that is rounding of 32 bits


class PeerFailed(SahajError):
    """A peer did not do what it was asked."""


@dataclass(frozen=True)
class RealFigures:
    """Global steps with groups of one size and some rounds."""

    group_size: int
    rounds: int
    error: float  # mean squared distance from the mean, beside the one before; of all peers and steps
    worst: float  # of one peer
    seconds: float  # until all had averaged, the search for groups included; median of the steps
    failed: int  # peers, in all steps, without a mean


def measure(peers: int, repeats: int) -> list[RealFigures]:
    """Let real peers average, as often for each row.

    Args:
        peers: a power of two.

    Raises:
        PeerFailed: one ended early or is too late.
    """
    with tempfile.TemporaryDirectory(prefix="sahaj-moshpit-") as folder:
        tasks = [Task(folder, number, peers, repeats) for number in range(peers)]
        running = [start_function(work, task, out=task.file("said")) for task in tasks]
        deadline = time.monotonic() + PATIENCE * (1 + repeats * len(list(plan(peers))))
        try:
            for task, peer in zip(tasks, running, strict=True):
                try:
                    status = peer.wait(max(0.0, deadline - time.monotonic()))
                except subprocess.TimeoutExpired:
                    status = None
                if status != 0:
                    raise PeerFailed(f"peer {task.number} ended with {status}: {task.file('said').read_text()[-2000:]}")
        finally:
            for peer in running:
                peer.kill()
        found = [[Averaged(**one) for one in json.loads(task.file("found").read_text())] for task in tasks]
    return [
        _figures([own[row * repeats : (row + 1) * repeats] for own in found]) for row in range(len(found[0]) // repeats)
    ]


def _figures(own: list[list[Averaged]]) -> RealFigures:
    """Of the same steps, by peer."""
    flat = [one for its in own for one in its]
    return RealFigures(
        group_size=flat[0].size,
        rounds=flat[0].rounds,
        error=_rounded(statistics.fmean(one.error for one in flat)),
        worst=_rounded(max(one.error for one in flat)),
        seconds=round(statistics.median(max(one.seconds for one in step) for step in zip(*own, strict=True)), 2),
        failed=sum(one.problem is not None for one in flat),
    )


def show(peers: int, figures: list[RealFigures]) -> None:
    """A table for people."""
    table = Table("groups of", "rounds", "error", "worst", "seconds", "failed", title=f"{peers} real peers")
    for one in figures:
        error, worst = (f"{value:.1e}" if value else "exact" for value in (one.error, one.worst))
        table.add_row(str(one.group_size), str(one.rounds), error, worst, f"{one.seconds:.1f}", str(one.failed))
    Console().print(table)


def _rounded(error: float) -> float:
    return float(f"{error:.4e}") if math.isnan(error) or error > EXACT else 0.0
