"""Forecasts a run with the volunteers of a table: its speed, how many days it takes, and what would help most.

Volunteers who take part some hours a day start at times spread over the day; the figures are means over `MOMENTS`
moments of the day. All who are present form one group.
"""

import contextlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from app.plan.table import Volunteers
from averaging.bandwidth import MEGABIT
from averaging.load_balancing.plan import (
    GlobalStep,
    NobodyReachable,
    Node,
    Plan,
    Role,
    global_step,
    make_plan,
    unplanned,
)
from averaging.reduce.grid import Grid
from swarm.run_file import RunFile
from trainer.model_size import tensor_sizes

DAY = 86_400.0  # seconds
MOMENTS = 6  # of a day
GOLDEN = (math.sqrt(5.0) - 1.0) / 2.0  # multiples of it, modulo 1, are spread evenly however many they are
FAT_LINE = 1000.0  # Mbit/s of the host that is tried as an aggregator
LARGER = 2  # times the batch that is tried

Planner = Callable[[Sequence[Node], GlobalStep], Plan]
Present = list[tuple[int, Node]]  # peers that are there at a moment, each with the number of its row


@dataclass(frozen=True)
class Outlook:
    """Means over a day."""

    samples_per_second: float  # that go into global steps of the target batch size
    averaging_seconds: float  # of a round
    step_seconds: float
    days: float | None  # until all global steps are done; None: never
    idle_fraction: float  # of the day in which no peer can average or none computes
    waits_for_lines: float  # fraction of the other time in which averaging, not computing, says how long a step takes


@dataclass(frozen=True)
class RowOutlook:
    """What the volunteers of a row do, as means over the time in which they are present."""

    device: str
    count: int
    role: Role  # in which they are most often
    parts: float  # of the averaging, all of the row together
    samples: float  # fraction of all samples, all of the row together


@dataclass(frozen=True)
class Change:
    """A change to the run or to the volunteers, and what it would bring."""

    name: str
    outlook: Outlook
    gain: float  # in samples a second, relative to the run without it: 0.5 is half as many more


@dataclass(frozen=True)
class Forecast:
    """What `sahaj plan` reports."""

    run: str
    peers: int  # the coordinator included, if it has a row
    parameters: int
    wire_bytes: float  # of a vector of gradients as it travels
    batch: int
    total_steps: int
    overlap: bool
    planned: Outlook
    equal: Outlook  # without a plan
    rows: tuple[RowOutlook, ...]
    changes: tuple[Change, ...]  # the best first


def forecast(run: RunFile, rows: Sequence[Volunteers]) -> Forecast:
    """Forecast with the function that plans the rounds of a real run (`averaging/load_balancing/plan.py`)."""
    step = step_of(run)
    planned, details = _outlook(run, rows, step, make_plan)
    changes = [
        Change(name, changed, changed.samples_per_second / planned.samples_per_second - 1.0)
        for name, changed in _changes(run, rows, step)
        if planned.samples_per_second
    ]
    return Forecast(
        run=run.name,
        peers=sum(row.count for row in rows),
        parameters=sum(tensor_sizes(run)),
        wire_bytes=step.wire_bytes,
        batch=run.averaging.target_batch_size,
        total_steps=run.optimizer.total_steps,
        overlap=run.averaging.overlap,
        planned=planned,
        equal=_outlook(run, rows, step, unplanned)[0],
        rows=details,
        changes=tuple(sorted(changes, key=lambda change: -change.gain)),
    )


def outlook(run: RunFile, rows: Sequence[Volunteers]) -> Outlook:
    """The run as it would be planned, and nothing else."""
    return _outlook(run, rows, step_of(run), make_plan)[0]


def step_of(run: RunFile) -> GlobalStep:
    """What is averaged in a global step."""
    return global_step(run.averaging, Grid(sum(tensor_sizes(run))))


def _changes(run: RunFile, rows: Sequence[Volunteers], step: GlobalStep) -> list[tuple[str, Outlook]]:
    host = Volunteers(device="host", samples_per_second=0.0, down=FAT_LINE, up=FAT_LINE)
    tried: list[tuple[str, Sequence[Volunteers], GlobalStep]] = [
        (f"a machine at {FAT_LINE:,.0f} Mbit/s that only averages", [*rows, host], step),
        (
            f"a batch of {LARGER * run.averaging.target_batch_size:,}",
            rows,
            replace(step, samples=LARGER * step.samples),
        ),
    ]
    stronger = {"none": "float16", "float16": "8bit"}.get(run.averaging.compression)
    if stronger is not None:
        averaging = run.averaging.model_copy(update={"compression": stronger})
        fewer = step_of(run.model_copy(update={"averaging": averaging}))
        tried.append((f"averaging.compression: {stronger}", rows, fewer))
    if not step.overlap:
        tried.append(("averaging.overlap: true", rows, replace(step, overlap=True)))
    if any(row.client_mode for row in rows):
        opened = [row.model_copy(update={"client_mode": False}) for row in rows]
        tried.append(("all open a port", opened, step))
    return [(name, _outlook(run, changed, other, make_plan)[0]) for name, changed, other in tried]


def _outlook(
    run: RunFile, rows: Sequence[Volunteers], step: GlobalStep, planner: Planner
) -> tuple[Outlook, tuple[RowOutlook, ...]]:
    moments = _moments(rows)
    plans = [(there, plan) for there in moments if (plan := _plan(there, step, planner)) is not None]
    rates = [step.samples / plan.step_seconds for _, plan in plans]
    rate = math.fsum(rates) / len(moments)
    # the work of a run is so many samples, also where a change makes the batch another one
    work = float(run.optimizer.total_steps) * run.averaging.target_batch_size
    return Outlook(
        samples_per_second=rate,
        averaging_seconds=_mean([plan.averaging_seconds for _, plan in plans]),
        step_seconds=_mean([plan.step_seconds for _, plan in plans]),
        days=work / rate / DAY if rate else None,
        idle_fraction=1.0 - len(plans) / len(moments),
        waits_for_lines=_mean([float(plan.waits_for_lines) for _, plan in plans]),
    ), tuple(_row_outlook(number, row, plans) for number, row in enumerate(rows))


def _moments(rows: Sequence[Volunteers]) -> list[Present]:
    everybody = [(number, row) for number, row in enumerate(rows) for _ in range(row.count)]
    if all(row.hours == 24.0 for row in rows):
        return [[(number, _peer(row)) for number, row in everybody]]
    return [
        [
            (number, _peer(row))
            for place, (number, row) in enumerate(everybody)
            if (moment / MOMENTS - place * GOLDEN) % 1.0 < row.hours / 24.0
        ]
        for moment in range(MOMENTS)
    ]


def _peer(row: Volunteers) -> Node:
    return Node(row.samples_per_second, row.up * MEGABIT, row.down * MEGABIT, row.client_mode)


def _plan(there: Present, step: GlobalStep, planner: Planner) -> Plan | None:
    """None if no machine computes, or none can average."""
    peers = [peer for _, peer in there]
    with contextlib.suppress(NobodyReachable):
        if any(peer.samples_per_second for peer in peers):
            return planner(peers, step)
    return None


def _row_outlook(number: int, row: Volunteers, plans: Sequence[tuple[Present, Plan]]) -> RowOutlook:
    roles: list[Role] = []
    parts, samples = [], []
    for there, plan in plans:
        own = [place for place, (of, _) in enumerate(there) if of == number]
        speeds = [peer.samples_per_second * role.trains for (_, peer), role in zip(there, plan.roles, strict=True)]
        roles += [plan.roles[place] for place in own]
        parts.append(math.fsum(plan.parts[place] for place in own) / sum(plan.parts))
        samples.append(math.fsum(speeds[place] for place in own) / math.fsum(speeds))
    most = max(roles, key=lambda role: (roles.count(role), role.value)) if roles else Role.TRAINER
    return RowOutlook(row.device, row.count, most, _mean(parts), _mean(samples))


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values) if values else 0.0
