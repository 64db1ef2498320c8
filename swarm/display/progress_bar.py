"""Progress of a long task: a bar on a terminal, a line now and then elsewhere."""

import time
from types import TracebackType

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

LINE_EVERY = 10.0  # seconds between two lines when the output is not a terminal


class ProgressBar:
    """Shows one task while its context is open; silent without a console.

    Args:
        total: of `completed`; None if it is unknown.
        first_line: seconds until the first line where there is no terminal.
    """

    def __init__(
        self, console: Console | None, title: str, total: int | None = None, *, first_line: float = LINE_EVERY
    ):
        self._console, self._title = console or Console(quiet=True), title
        self._next_line = time.monotonic() + first_line
        self._bar = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TextColumn("{task.fields[figures]}"),
            TimeElapsedColumn(),
            console=self._console,
            transient=True,
            disable=not self._console.is_terminal,
        )
        self._task = self._bar.add_task(title, total=total, figures="")

    def __enter__(self) -> "ProgressBar":
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def update(self, completed: int | None = None, *, total: int | None = None, figures: str | None = None) -> None:
        """Move the bar, and show the figures beside it or, once the last line is old enough, in a line."""
        if figures is None:
            self._bar.update(self._task, completed=completed, total=total)
            return
        self._bar.update(self._task, completed=completed, total=total, figures=figures)
        if not self._console.is_terminal and time.monotonic() >= self._next_line:
            self._next_line = time.monotonic() + LINE_EVERY
            self._print(f"{self._title}: {figures}")

    def begin_stage(self, title: str, line: str) -> None:
        """Go on with another stage, announced by `line` where there is no terminal."""
        self._bar.update(self._task, description=title)
        if not self._console.is_terminal:
            self._print(line)

    def _print(self, line: str) -> None:
        self._console.print(escape(line), soft_wrap=True, highlight=False)
