"""Progress of fine-tuning: a bar on a terminal, elsewhere a line now and then."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

LINE_SECONDS = 10.0  # between two lines where the output is not a terminal


class FineTuningProgress:
    """Shows one fine-tuning at a time, and the `score` of its epochs; silent without a console."""

    def __init__(self, console: Console | None, score: str) -> None:
        self._console = console or Console(quiet=True)
        self.score = score
        self._next_line = 0.0  # the first epoch tells how long all will take

    def say(self, line: str) -> None:
        """Print a line that stays."""
        self._console.print(escape(line), soft_wrap=True, highlight=False)

    @contextmanager
    def running(self, title: str) -> Iterator[TrainerCallback]:
        """Yield a callback for the Trainer that moves a bar called `title`."""
        with Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TextColumn("{task.fields[figures]}"),
            TimeElapsedColumn(),
            console=self._console,
            transient=True,
            disable=not self._console.is_terminal,
        ) as bar:
            yield _BarCallback(self, bar, title)

    def epoch_ended(self, title: str, figures: str) -> None:
        """Print a line about it, if there is no bar and the last line was long ago."""
        if not self._console.is_terminal and time.monotonic() >= self._next_line:
            self._next_line = time.monotonic() + LINE_SECONDS
            self.say(f"{title}: {figures}")


class _BarCallback(TrainerCallback):
    def __init__(self, progress: FineTuningProgress, bar: Progress, title: str) -> None:
        self._progress, self._bar, self._title = progress, bar, title
        self._task = bar.add_task(title, total=None, figures="")
        self._best = 0.0

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        self._bar.update(self._task, completed=state.global_step, total=state.max_steps)

    def on_evaluate(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **more: Any) -> None:
        score = more["metrics"][f"eval_{self._progress.score}"]
        self._best = max(self._best, score)
        figures = (
            f"epoch {round(state.epoch or 0)} of at most {round(args.num_train_epochs)}, "
            f"validation {self._progress.score} {score:.1%} (best {self._best:.1%})"
        )
        self._bar.update(self._task, figures=figures)
        self._progress.epoch_ended(self._title, figures)
