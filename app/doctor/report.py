"""Shows the results: a line for each check, or JSON."""

import json
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from app.doctor.results import Check, CheckResult, Mark
from swarm.language import _

STYLES = {Mark.OK: "green", Mark.WARNING: "yellow", Mark.FAULT: "bold red", Mark.SKIPPED: "dim"}
MARKS = max(len(mark.value) for mark in Mark)  # characters
NAMES = max(len(check.value) for check in Check)


def is_faulty(results: Sequence[CheckResult]) -> bool:
    """Whether something keeps this machine from taking part."""
    return any(one.mark is Mark.FAULT for one in results)


def as_json(results: Sequence[CheckResult], version: str) -> str:
    """For a program, or to show to somebody who helps."""
    checks = [{"check": one.check.value, "mark": one.mark.value, "message": one.message} for one in results]
    return json.dumps(
        {"version": version, "ok": not is_faulty(results), "checks": checks}, indent=2, ensure_ascii=False
    )


def show(results: Sequence[CheckResult], console: Console) -> None:
    """In a terminal long lines are folded in their column; elsewhere each stays a line."""
    if console.is_terminal:
        table = Table.grid(padding=(0, 2))
        for one in results:
            style = STYLES[one.mark]
            table.add_row(Text(one.mark.value, style), one.check.value, Text(one.message, _message_style(one.mark)))
        console.print(table)
    else:
        for one in results:
            line = f"{one.mark.value:{MARKS}}  {one.check.value:{NAMES}}  {one.message}"
            console.print(line, soft_wrap=True, markup=False, highlight=False)
    console.print()
    console.print(summary(results), highlight=False, soft_wrap=True)


def summary(results: Sequence[CheckResult]) -> str:
    """The last line."""
    faults = [one.check.value for one in results if one.mark is Mark.FAULT]
    if faults:
        return _("This machine cannot take part yet: see {checks}.").format(checks=", ".join(faults))
    if any(one.check in (Check.PASS, Check.PEERS, Check.LINK) and one.mark is not Mark.OK for one in results):
        return _("No fault was found, but not everything is in order or could be checked.")
    if any(one.check is Check.COORDINATOR for one in results):
        return _("Nothing keeps this machine from joining.")
    return _("Nothing is wrong with this machine; `sahaj doctor LINK` looks at the way to a run as well.")


def _message_style(mark: Mark) -> str:
    return "dim" if mark is Mark.SKIPPED else ""
