"""What one sees while a tokenizer is trained: a bar on a terminal, a line now and then elsewhere."""

import time
from collections.abc import Iterable, Iterator
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

# Seconds between two lines when the output is not a terminal
LINE_SECONDS = 10.0


class TrainingProgress:
    """Shows how many documents were read, then that tokens are being learned; silent without a console."""

    def __init__(self, console: Console | None, total: int | None) -> None:
        self._console = console or Console(quiet=True)
        self._total = total
        self._documents = self._bytes = 0
        self._next_line = time.monotonic() + LINE_SECONDS
        self._bar = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[figures]}"),
            TimeElapsedColumn(),
            console=self._console,
            transient=True,
            disable=not self._console.is_terminal,
        )
        self._task = self._bar.add_task("reading text", total=total, figures="")

    def __enter__(self) -> "TrainingProgress":
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def counted(self, texts: Iterable[str]) -> Iterator[str]:
        """The texts, counted as they pass; after the last one the display turns to the learning."""
        for text in texts:
            self._documents += 1
            self._bytes += len(text.encode())
            self._bar.update(self._task, completed=self._documents, figures=self._figures())
            if not self._console.is_terminal and time.monotonic() >= self._next_line:
                self._next_line = time.monotonic() + LINE_SECONDS
                self._console.print(f"reading text: {self._figures()}")
            yield text
        self._bar.update(self._task, description="learning tokens", total=None)
        if not self._console.is_terminal:
            self._console.print(f"learning tokens from {self._figures()}")

    def _figures(self) -> str:
        return f"{self._documents:,} documents, {self._bytes / 1e6:,.1f} MB"
