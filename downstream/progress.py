"""What the console shows while models are fine-tuned."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.markup import escape
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from swarm.display.progress_bar import LINE_EVERY, ProgressBar


class FineTuningProgress:
    """Shows one fine-tuning at a time, and the `score` of its epochs; silent without a console."""

    def __init__(self, console: Console | None, score: str) -> None:
        self._console = console or Console(quiet=True)
        self._score = score
        self._first_line = 0.0  # seconds; the very first epoch tells how long everything will take

    def say(self, line: str) -> None:
        """Print a line that stays."""
        self._console.print(escape(line), soft_wrap=True, highlight=False)

    @contextmanager
    def running(self, title: str) -> Iterator[TrainerCallback]:
        """Yield a callback for the Trainer that moves a bar called `title`."""
        with ProgressBar(self._console, title, first_line=self._first_line) as bar:
            self._first_line = LINE_EVERY
            yield _BarCallback(bar, self._score)


class _BarCallback(TrainerCallback):
    def __init__(self, bar: ProgressBar, score: str) -> None:
        self._bar, self._score, self._best = bar, score, 0.0

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        self._bar.update(state.global_step, total=state.max_steps)

    def on_evaluate(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **more: Any) -> None:
        score = more["metrics"][f"eval_{self._score}"]
        self._best = max(self._best, score)
        self._bar.update(
            figures=f"epoch {round(state.epoch or 0)} of at most {round(args.num_train_epochs)}, "
            f"validation {self._score} {score:.1%} (best {self._best:.1%})"
        )
