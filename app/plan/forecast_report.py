"""What `sahaj plan` does: it forecasts a run from a table of volunteers, as a report and JSON."""

import json
from dataclasses import asdict
from pathlib import Path

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table

from app.plan.forecast import Forecast, Outlook, forecast
from app.plan.table import read_table
from averaging.load_balancing.plan import Role
from swarm.files import write_file
from swarm.run_file import load_run

WORTH_NAMING = 0.02  # smaller gains in samples a second are not reported as help
HOUR = 3600.0  # seconds


def plan(table: Path, run: Path, *, json_file: Path | None) -> RenderableType:
    """Predict, write the file that is asked for, and return the report for a terminal.

    Raises:
        TableError, RunFileError: one line that names the mistake.
        StorageError: the file could not be written.
    """
    found = forecast(load_run(run), read_table(table))
    if json_file is not None:
        write_file(json_file, json.dumps(asdict(found), indent=2) + "\n")
    return render(found)


def render(found: Forecast) -> RenderableType:
    """The forecast for a terminal."""
    facts = Table.grid(padding=(0, 2))
    facts.add_row("a round sends", f"{found.parameters:,} elements in {found.wire_bytes / 1e6:,.1f} MB")
    facts.add_row("a global step", f"{found.batch:,} samples; {found.total_steps:,} steps in all")
    facts.add_row("peers compute while averaging", "yes" if found.overlap else "no")
    outlooks = Table(box=None, padding=(0, 2))
    for column in ("", "samples/s", "averaging", "a step", "days"):
        outlooks.add_column(column, justify="right" if column else "left")
    for name, outlook in (("equal parts", found.equal), ("this plan", found.planned)):
        outlooks.add_row(name, *_figures(outlook))
    return Group(
        f"[bold]{found.run}[/bold] with {found.peers:,} peers",
        Padding(facts, (0, 2)),
        Padding(outlooks, (1, 0)),
        "[bold]who does what[/bold]",
        Padding(_roles(found), (0, 0, 1, 0)),
        "[bold]what would help[/bold]",
        Padding(_changes(found), (0, 0, 1, 0)),
        *_remarks(found),
    )


def _roles(found: Forecast) -> Table:
    table = Table(box=None, padding=(0, 2))
    for column in ("", "device", "role", "of the samples", "of the averaging"):
        table.add_column(column, justify="left" if column in ("device", "role") else "right")
    for row in found.rows:
        table.add_row(f"{row.count:,}", escape(row.device), row.role.value, f"{row.samples:.1%}", f"{row.parts:.1%}")
    return table


def _changes(found: Forecast) -> Table:
    table = Table(box=None, padding=(0, 2))
    for column in ("", "gain", "samples/s", "averaging", "a step", "days"):
        table.add_column(column, justify="right" if column else "left")
    for change in found.changes:
        table.add_row(change.name, f"{change.gain:+.0%}", *_figures(change.outlook))
    return table


def _remarks(found: Forecast) -> list[str]:
    """What the figures mean, in sentences."""
    remarks = []
    best = next((change for change in found.changes if change.gain >= WORTH_NAMING), None)
    if found.planned.days is None:
        remarks.append("No peer could average: one that others can reach must be present, such as the coordinator.")
    elif best is not None:
        remarks.append(f"What helps most: {best.name} ({best.gain:+.0%} samples a second).")
    else:
        remarks.append("None of these helps: computing is the limit, and only more devices make the run shorter.")
    if found.planned.idle_fraction:
        remarks.append(
            f"For {found.planned.idle_fraction:.0%} of the day nobody computes, or no peer that is online accepts "
            "connections; ask for a volunteer who can be reached then."
        )
    if found.planned.waits_for_lines and found.planned.days is not None:
        remarks.append(
            f"Steps wait for Internet connections in {found.planned.waits_for_lines:.0%} of the training time; "
            "a larger batch needs fewer rounds."
        )
    if any(row.role is Role.LISTENER for row in found.rows):
        remarks.append(
            f"Volunteers with the role '{Role.LISTENER.value}' only follow the model, because waiting for their "
            "gradients would cost more than they add."
        )
    if not any(row.role is Role.AGGREGATOR for row in found.rows):
        remarks.append("Is the coordinator in the table? It averages too: give it a row with samples_per_second 0.")
    remarks.append("Not counted: the time in which peers find each other, and rounds that fail.")
    return remarks


def _figures(outlook: Outlook) -> tuple[str, str, str, str]:
    days = "never" if outlook.days is None else f"{outlook.days:,.1f}"
    return (
        f"{outlook.samples_per_second:,.1f}",
        _duration(outlook.averaging_seconds),
        _duration(outlook.step_seconds),
        days,
    )


def _duration(seconds: float) -> str:
    return f"{seconds / HOUR:,.1f} h" if seconds >= HOUR else f"{seconds:,.1f} s"
