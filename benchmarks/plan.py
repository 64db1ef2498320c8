"""How long a plan takes to make, how good it is, and what it saves beside equal parts and hivemind's rule.

    python -m benchmarks.plan [--groups 10] [--json FILE]

Nothing is sent: the times of rounds are those that the model predicts. Groups are random: lines of 100/20, 50/10, 20/5
and 10/2 Mbit/s (down/up), each up to a fifth more or less, half of the peers in client mode, 1 to 40 samples a second,
and a host of 1 Gbit/s that computes nothing; the vector is that of ALBERT-large in 8 bits. What counts: a plan for 64
peers takes at most 50 ms and one for 1,024 at most a second, of processor time; the closed form has the optimum of the
whole linear program; and the choice of trainers is close to a bound that no choice passes.
"""

import json
import statistics
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.console import Console
from rich.progress import track
from rich.table import Table
from scipy.optimize import linprog

from averaging.bandwidth import MEGABIT
from averaging.load_balancing.closed_form import Floats, Lines, round_seconds
from averaging.load_balancing.plan import GlobalStep, Node, make_plan, unplanned
from averaging.reduce.gradient_codec import vector_bytes
from averaging.reduce.grid import Grid
from benchmarks.linear_program import round_rate
from benchmarks.support import command
from swarm.files import write_file
from tests.averaging.load_balancing.groups_of_peers import random_lines, random_trainers

LINES = ((100, 20), (50, 10), (20, 5), (10, 2))  # Mbit/s down and up
GRID = Grid(17_847_474)
ALBERT_LARGE = GlobalStep(chunks=GRID.count, wire_bytes=vector_bytes(GRID, "8bit"), samples=4096)
BATCHES = (256, 1024, 4096, 16384)  # samples of a step: from waiting for lines to waiting for processors
SIZES = (8, 64, 256, 1024)
COMPARED = 8  # peers up to which the whole program is solved
BOUNDED = 64  # peers up to which the bound of all choices of trainers is computed
HALVINGS = 14  # of the interval in which that bound lies
SMALL_GROUPS = 400  # of 2 to 6 peers, in which elements may have two owners


@dataclass(frozen=True)
class Figures:
    """Of groups of one size. Ratios are of predicted seconds of a global step."""

    peers: int
    plan_seconds: float  # processor time, median
    plan_seconds_most: float
    equal_over_plan: float  # geometric mean
    plan_over_bound: float | None  # the worst; 1: no choice of trainers is better
    closed_form_error: float | None  # relative difference from the whole linear program, the worst


@dataclass(frozen=True)
class Prediction:
    """Predicted seconds of a round of a set of peers that all train, in which only the parts differ."""

    equal: float
    hivemind: float
    ours: float
    bound: float  # of the whole linear program


@dataclass(frozen=True)
class TwoOwners:
    """What the paper's program gains where it lets peers average the same elements in two places."""

    groups: int
    better: float  # fraction of them in which it gains anything
    most: float  # rounds a second beside those with one owner for each element


def main(
    groups: Annotated[int, typer.Option(min=1, help="Random groups of each size, for each batch size.")] = 5,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the figures to this file.")] = None,
) -> None:
    """Measure, print tables, and write the JSON file if one is asked for."""
    make_plan(random_group(64, 0), replace(ALBERT_LARGE, samples=256))  # what happens only once is not measured
    sizes = [measure(size, groups) for size in track(SIZES, "groups", transient=True)]
    sets = {name: predict(peers) for name, peers in peer_sets().items()}
    owners = two_owners()
    _print(sizes, sets, owners)
    if json_file:
        content = {
            "groups": {str(one.peers): asdict(one) for one in sizes},
            "predicted": {name: asdict(one) for name, one in sets.items()},
            "two_owners": asdict(owners),
        }
        write_file(json_file, json.dumps(content, indent=2) + "\n")


def random_group(peers: int, seed: int) -> list[Node]:
    """Volunteers and a host."""
    rng = np.random.default_rng(seed)
    group = [Node(0.0, 1000 * MEGABIT, 1000 * MEGABIT)]
    for _ in range(peers - 1):
        down, up = (rate * MEGABIT * rng.uniform(0.8, 1.2) for rate in LINES[rng.integers(len(LINES))])
        group.append(Node(float(rng.uniform(1, 40)), up, down, client_mode=bool(rng.random() < 0.5)))
    return group


def peer_sets() -> dict[str, list[Node]]:
    """Eight peers alike; eight with four kinds of lines; eight of which five are in client mode."""

    def peers(lines: Sequence[tuple[int, int]], clients: int = 0) -> list[Node]:
        return [
            Node(10.0, up * MEGABIT, down * MEGABIT, client_mode=number >= len(lines) - clients)
            for number, (down, up) in enumerate(lines)
        ]

    return {
        "homogeneous": peers([(50, 50)] * 8),
        "mixed": peers(sorted(LINES * 2, reverse=True)),
        "firewalled": peers(sorted(LINES * 2, reverse=True), clients=5),
    }


def measure(size: int, groups: int) -> Figures:
    """Plan for random groups of one size."""
    seconds, gains, gaps, errors = [], [], [], []
    for seed in range(groups):
        group = random_group(size, seed)
        for samples in BATCHES:
            step = replace(ALBERT_LARGE, samples=samples)
            began = time.process_time()
            plan = make_plan(group, step)
            seconds.append(time.process_time() - began)
            gains.append(unplanned(group, step).step_seconds / plan.step_seconds)
            if size <= BOUNDED:
                gaps.append(plan.step_seconds / bound(group, step, plan.step_seconds))
            if size <= COMPARED:
                lines, trains = lines_of(group, step), np.array([role.trains for role in plan.roles])
                errors.append(abs(round_rate(lines, trains) * round_seconds(lines, trains[None])[0] - 1.0))
    return Figures(
        peers=size,
        plan_seconds=round(statistics.median(seconds), 4),
        plan_seconds_most=round(max(seconds), 4),
        equal_over_plan=round(statistics.geometric_mean(gains), 2),
        plan_over_bound=round(max(gaps), 4) if gaps else None,
        closed_form_error=float(f"{max(errors):.1e}") if errors else None,
    )


def two_owners() -> TwoOwners:
    """Solve the whole program for small groups with and without one owner for each element."""
    rng, gains = np.random.default_rng(0), list[float]()
    while len(gains) < SMALL_GROUPS:
        peers = int(rng.integers(2, 7))
        lines, trains = random_lines(rng, peers), random_trainers(rng, peers)
        if lines.reachable.any():
            gains.append(round_rate(lines, trains, averaged_once=False) / round_rate(lines, trains))
    better = sum(gain > 1.0 + 1e-6 for gain in gains) / len(gains)
    return TwoOwners(len(gains), round(better, 3), round(max(gains), 3))


def bound(group: Sequence[Node], step: GlobalStep, found: float) -> float:
    """Seconds that every global step with overlap takes at least.

    Peers may train in part here, which makes the choice easy and no worse.
    """
    lines, speeds = lines_of(group, step), np.array([peer.samples_per_second for peer in group])
    lone = np.eye(len(group), dtype=np.bool_)[speeds > 0.0]
    alone = float(np.maximum(round_seconds(lines, lone), step.samples / speeds[speeds > 0.0]).min())
    least, most = step.samples / float(speeds.sum()), found
    for _ in range(HALVINGS):
        middle = (least + most) / 2.0
        if _may_be_done(lines, speeds, step.samples, middle):
            most = middle
        else:
            least = middle
    return min(least, alone)


def _may_be_done(lines: Lines, speeds: Floats, samples: float, seconds: float) -> bool:
    """Whether, for some number C of trainers, fractions of peers can compute and average in time."""
    send, get, others = lines.upload * seconds, lines.download * seconds, len(speeds) - 1.0
    if (get < 1.0).any():
        return False
    able = (speeds > 0.0) & (send >= 1.0)
    for trainers in range(2, int(able.sum()) + 1):
        caps = []
        for own in (0.0, 1.0):
            down = (get - 1.0) / (trainers - 1.0 - own) if trainers - 1.0 - own else np.inf
            caps.append(np.where(lines.reachable, np.clip(np.minimum((send - own) / (others - own), down), 0, 1), 0.0))
        idle, busy = caps
        solved = linprog(
            -speeds,
            A_ub=[idle - busy],
            b_ub=[idle.sum() - 1.0],
            A_eq=[np.ones(len(speeds))],
            b_eq=[trainers],
            bounds=[(0.0, float(can)) for can in able],
            method="highs",
        )
        if solved.success and -solved.fun * seconds >= samples:
            return True
    return False


def predict(group: Sequence[Node]) -> Prediction:
    """Rounds in which all train, with the parts of three rules."""
    from hivemind.averaging.load_balancing import load_balance_peers

    step = replace(ALBERT_LARGE, samples=1e12)  # computing takes so long that nobody has to stop
    lines = lines_of(group, step)
    # hivemind has one number for a line; the upload is the one that is scarce
    theirs = load_balance_peers(GRID.elements, [0.0 if one.client_mode else one.upload for one in group])
    shares, others = np.array(theirs) / GRID.elements, len(group) - 1
    load = 1.0 - shares + others * shares
    return Prediction(
        equal=round(unplanned(group, step).averaging_seconds, 2),
        hivemind=round(float(np.maximum(load / lines.upload, load / lines.download).max()), 2),
        ours=round(make_plan(group, step).averaging_seconds, 2),
        bound=round(1.0 / round_rate(lines, np.ones(len(group), dtype=np.bool_)), 2),
    )


def lines_of(group: Sequence[Node], step: GlobalStep) -> Lines:
    """The group's lines in vectors of this step."""
    return Lines(
        upload=np.array([peer.upload for peer in group]) / step.wire_bytes,
        download=np.array([peer.download for peer in group]) / step.wire_bytes,
        reachable=np.array([not peer.client_mode for peer in group]),
    )


def _print(sizes: Sequence[Figures], sets: dict[str, Prediction], owners: TwoOwners) -> None:
    table = Table("", *(f"{one.peers:,} peers" for one in sizes), title="Plans for random groups")
    for name in ("plan_seconds", "plan_seconds_most", "equal_over_plan", "plan_over_bound", "closed_form_error"):
        values = [getattr(one, name) for one in sizes]
        table.add_row(name.replace("_", " "), *("" if value is None else f"{value:g}" for value in values))
    predicted = Table("", *Prediction.__dataclass_fields__, title="Predicted seconds of a round, all peers train")
    for name, one in sets.items():
        predicted.add_row(name, *(f"{value:.2f}" for value in asdict(one).values()))
    Console().print(table, predicted)
    Console().print(
        f"Elements with two owners would help in {owners.better:.1%} of {owners.groups} groups of 2 to 6 peers, "
        f"{owners.most:.2f} times at most."
    )


if __name__ == "__main__":
    command.run(main)
