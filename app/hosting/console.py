"""What a host's volunteer sees: messages, and a line about the work, which stays in place in a terminal."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Collection, Iterator
from types import TracebackType
from typing import TYPE_CHECKING

from rich.console import Console
from rich.status import Status
from rich.text import Text

from swarm.language import _, several
from swarm.logging.logs import console_line
from trainer.console.terminal_text import fit, printable

if TYPE_CHECKING:  # it takes seconds to import, and a console shows a wrong link at once
    from experts.grid import Uid
    from experts.remote.hosting import Report

MOST_NAMED = 12  # experts in a line
PLAIN_EVERY = 60.0  # seconds between two lines outside of a terminal
SPAN = 5.0  # seconds over which speeds are measured


class HostConsole:
    """Shows messages and reports while its block runs. Any thread may call `message`, one thread `show`."""

    def __init__(self, console: Console):
        self._console = console
        self._status: Status | None = None  # before there is work, it would draw over the question for a token
        self._held: tuple[Collection[Uid], Collection[Uid]] = ((), ())
        self._problem = ""
        self._measured: tuple[float, Report] | None = None
        self._speed = 0.0, 0.0  # calls and rows a second, of late
        self._next_line = -math.inf  # monotonic seconds

    def __enter__(self) -> HostConsole:
        return self

    def __exit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._end_line()

    def message(self, text: str) -> None:
        """Show the volunteer one line."""
        console_line(text)
        with self._showing():
            self._print(text)

    def farewell(self, text: str) -> None:
        """End the line that stays in place, which gives the cursor back, and show the volunteer another below it."""
        self._end_line()
        self.message(text)

    def show(self, report: Report) -> None:
        """Show what the host does now, and say what has changed."""
        now = time.monotonic()
        held = report.holdings.serves.keys() | set(), report.holdings.copies.keys() | set()
        if held != self._held:
            self._held = held
            self.message(holdings_line(*held))
        if report.problem != self._problem:
            self._problem = report.problem
            problem = _("problem: ") + report.problem
            self.message(problem if report.problem else _("The problem is over."))
        if self._measured is None or now >= self._measured[0] + SPAN:
            if self._measured is not None:
                since, before = self._measured
                done = report.answered - before.answered, report.rows - before.rows
                self._speed = done[0] / (now - since), done[1] / (now - since)
            self._measured = now, report
        with self._showing():
            line = work_line(report, *self._speed)
            if self._console.is_terminal:
                if self._status is None:
                    self._status = self._console.status("")
                    self._status.start()
                self._status.update(Text(fit(line, self._console.width - 4)))
            elif now >= self._next_line:
                self._next_line = now + PLAIN_EVERY
                self._print(line)

    def _end_line(self) -> None:
        with self._showing():
            if self._status is not None:
                self._status.stop()

    def _print(self, text: str) -> None:
        self._console.print(Text(printable(text)), soft_wrap=True)

    @contextlib.contextmanager
    def _showing(self) -> Iterator[None]:
        """When the terminal or pipe is gone, the host goes on without it; Rich would end the program."""
        with contextlib.suppress(OSError, SystemExit):
            yield


def work_line(report: Report, calls: float, rows: float) -> str:
    """The work in one line; calls and rows are those of a second, of late."""
    parts = [
        _("serving {n}").format(n=len(report.holdings.serves)),
        _("copying {n}").format(n=len(report.holdings.copies)),
        _("{n} tokens served").format(n=f"{report.served:,}"),
        _("{calls} calls and {rows} rows a second").format(calls=f"{calls:,.1f}", rows=f"{rows:,.0f}"),
        _("{answered} answered, {refused} refused").format(
            answered=f"{report.answered:,}", refused=f"{report.refused:,}"
        ),
    ]
    return " | ".join(parts)


def holdings_line(serves: Collection[Uid], copies: Collection[Uid]) -> str:
    """Which experts a host has, in one line."""
    return _("Serving {served}; keeping copies of {copied}.").format(served=_named(serves), copied=_named(copies))


def _named(uids: Collection[Uid]) -> str:
    names = [".".join(map(str, uid)) for uid in sorted(uids)]
    if not names:
        return _("no expert")
    if len(names) > MOST_NAMED:
        told = _("experts {names} and {n} more")
    else:
        told = several("expert {names}", "experts {names}", len(names))
    return told.format(names=", ".join(names[:MOST_NAMED]), n=len(names) - MOST_NAMED)
