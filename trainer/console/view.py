"""What a volunteer sees: a live view in a terminal, or a plain line every few seconds elsewhere."""

import contextlib
import io
import math
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING

from rich.console import Console, Group
from rich.live import Live
from rich.padding import Padding
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from swarm.logging.logs import console_line
from trainer.console.terminal_text import fit, printable, wrap

if TYPE_CHECKING:  # it takes seconds to import, and a console shows a wrong link at once
    from averaging.shell.shell import Progress
    from trainer.pausing.decision import Pause

TREND = 24  # global steps in the small curve of the loss
MESSAGES = 3  # newest messages that stay in sight
WIDEST = 88  # columns; wider lines are harder to read
NARROW = 60  # columns; below, one figure a line
INDENT = "  "  # left free on both sides
REDRAW_EVERY = 0.25  # seconds; faster than that, figures flicker
SLOW_DATA = 0.02  # fraction of the time waiting for data that is marked as too much
BARS = "▁▂▃▄▅▆▇█"


@dataclass(frozen=True)
class View:
    """Everything the console shows at one moment."""

    run: str
    name: str  # what the volunteer calls this session
    step: int  # global step
    total_steps: int
    step_samples: int  # samples of all peers towards the next global step
    target_batch_size: int  # samples in a global step
    peers: int  # in the swarm now, this one included
    own_samples: int  # of this session
    swarm_samples: int  # of all peers since the run began
    loss: float | None  # nats; None before the first one is known
    samples_per_second: float
    swarm_samples_per_second: float
    averaging_rounds: int
    averaging_failures: int  # of these rounds
    data_wait_fraction: float  # of the time, between 0 and 1
    client_mode: bool
    status: str  # what is going on now, in a few words
    experts: tuple[int, int] | None = None  # that answer now, of how many; None if the run has none


class ConsoleView:
    """Shows the newest `View` while its block runs; `update` and `message` may come from any thread.

    In a terminal the view stays in place and is redrawn; its messages stand below it. Elsewhere
    each message is printed as a line at once, and the view as a line every `plain_every` seconds.
    """

    def __init__(self, console: Console | None = None, *, plain_every: float = 5.0):
        self._console = console or Console()
        self._plain_every = plain_every
        self._lock = threading.RLock()
        self._view: View | None = None
        self._unseen = False  # the newest view came too soon after the one before
        self._next_show = -math.inf  # seconds of the monotonic clock
        self._trend: dict[int, float] = {}  # loss by global step
        self._messages: deque[str] = deque(maxlen=MESSAGES)
        self._live: Live | None = None
        self._open = False
        if isinstance(self._console.file, io.TextIOWrapper):
            self._console.file.reconfigure(errors="replace")  # no name from outside can break the output

    def __enter__(self) -> "ConsoleView":
        self._open = True
        return self

    def __exit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        with self._showing():
            self._close()

    def update(self, view: View) -> None:
        """Show this view from now on."""
        with self._showing():
            if not self._open:
                return
            self._view = view
            self._note_loss(view)
            if time.monotonic() < self._next_show:
                self._unseen = True
            elif self._console.is_terminal:
                self._draw()
            else:
                self._print_view()

    def message(self, text: str) -> None:
        """Show the volunteer one line."""
        console_line(text)
        with self._showing():
            self._add_message(text)

    def farewell(self, text: str) -> None:
        """End the live view where it stands, and print the text below it."""
        console_line(text)
        with self._showing():
            self._end_with(text)

    @contextlib.contextmanager
    def _showing(self) -> Iterator[None]:
        """Let one thread draw at a time; when the terminal is gone, go on without a view."""
        with self._lock:
            try:
                yield
            except OSError:
                self._lose_output()

    def _lose_output(self) -> None:
        self._open, self._live = False, None

    def _add_message(self, text: str) -> None:
        if self._live is None:
            self._print_line(text)
        else:
            self._messages.append(f"{time.strftime('%H:%M')}  {text}")
            self._draw()

    def _end_with(self, text: str) -> None:
        self._close()
        self._console.print()
        for line in text.splitlines():
            self._print_line(line)

    def _close(self) -> None:
        if self._unseen and not self._console.is_terminal:
            self._print_view()
        if self._live is not None:
            self._draw()
            self._live.stop()
        self._live, self._open = None, False

    def _note_loss(self, view: View) -> None:
        if view.loss is not None and math.isfinite(view.loss):
            self._trend[view.step] = view.loss
            for step in sorted(self._trend)[:-TREND]:
                del self._trend[step]

    def _draw(self) -> None:
        """Draw the newest view in place; only called on changes, so that an idle view costs nothing."""
        if self._view is None:
            return
        if self._live is None:
            self._live = Live(console=self._console, auto_refresh=False)
            self._live.start()
        trend = [loss for _, loss in sorted(self._trend.items())]
        self._live.update(picture(self._view, trend, self._messages, self._console.width), refresh=True)
        self._shown(REDRAW_EVERY)

    def _print_view(self) -> None:
        if self._view is not None:
            self._print_line(plain_line(self._view))
            self._shown(self._plain_every)

    def _shown(self, pause: float) -> None:
        self._unseen, self._next_show = False, time.monotonic() + pause

    def _print_line(self, line: str) -> None:
        self._console.print(Text(printable(line)), soft_wrap=True)


def picture(view: View, trend: Sequence[float], messages: Iterable[str], width: int) -> Group:
    """The live view for a terminal of `width` columns; `trend` holds the losses of the last global steps.

    Lines with text from outside end where the text ends: Rich would fill them up to the right edge,
    and a terminal that gives a vowel sign one column more than Rich does would break them there.
    """
    room = min(width, WIDEST) - 2 * len(INDENT)
    narrow = room < NARROW
    who = f"{view.name}, client mode" if view.client_mode else view.name
    bar = ProgressBar(view.target_batch_size, view.step_samples, style="grey23", complete_style="cyan")
    parts: list[Table | Text | ProgressBar] = [
        Text(),
        Text.assemble(INDENT, (view.run, "bold cyan"), "  ", (fit(who, room - len(view.run) - 2), "dim")),
        Text(),
        _heading(view, narrow=narrow),
        bar,
        Text(INDENT + fit(view.status, room), style="italic dim"),
        Text(),
        _figures(view, trend, narrow=narrow),
        Text(),
    ]
    for message in messages:
        parts += [Text(INDENT + line, style="dim") for line in wrap(message, room, lines=2)]
    right = max(0, width - room - len(INDENT))
    return Group(*(part if isinstance(part, Text) else Padding(part, (0, right, 0, len(INDENT))) for part in parts))


def plain_line(view: View) -> str:
    """The view as one line of plain text."""
    parts = [
        f"global step {view.step:,} of {view.total_steps:,}",
        f"{_share(view.step_samples, view.target_batch_size)} of the next",
        f"loss {_loss(view)}",
        _peers(view),
        f"you {_samples(view.own_samples, view.samples_per_second)}",
        f"swarm {_samples(view.swarm_samples, view.swarm_samples_per_second)}",
        f"averaging {_averaging(view)}",
        f"data wait {view.data_wait_fraction:.1%}",
        "" if view.experts is None else f"experts {_experts(*view.experts)}",
        view.status,
    ]
    return printable(" | ".join(part for part in parts if part))


def sparkline(values: Sequence[float]) -> str:
    """A curve one line high, from the lowest value to the highest."""
    if len(values) < 2:
        return ""
    low, span = min(values), max(values) - min(values)
    return "".join(
        BARS[min(len(BARS) - 1, int((value - low) / span * len(BARS)))] if span else BARS[0] for value in values
    )


def _heading(view: View, *, narrow: bool) -> Table:
    step = Text.assemble("Global step ", (f"{view.step:,}", "bold"), (f" of {view.total_steps:,}", "dim"))
    samples = Text(f"{view.step_samples:,} / {view.target_batch_size:,} samples", style="dim")
    rows = [(step,), (samples,)] if narrow else [(step, samples)]
    line = Table.grid(expand=True)
    line.add_column(no_wrap=True)
    line.add_column(no_wrap=True, justify="right")
    for row in rows:
        line.add_row(*row)
    return line


def _figures(view: View, trend: Sequence[float], *, narrow: bool) -> Table:
    """The figures, two a line, or one where the terminal is narrow."""
    loss = Text.assemble((_loss(view), "bold"), " ", (sparkline(trend), "cyan"))
    failing = "yellow" if view.averaging_failures else ""
    waiting = "yellow" if view.data_wait_fraction > SLOW_DATA else ""
    figures: list[tuple[str, Text]] = [
        ("Loss", loss),
        ("Peers", Text(_peers(view))),
        ("You", Text(_samples(view.own_samples, view.samples_per_second))),
        ("Swarm", Text(_samples(view.swarm_samples, view.swarm_samples_per_second))),
        ("Averaging", Text(_averaging(view), style=failing)),
        ("Data wait", Text(f"{view.data_wait_fraction:.1%}", style=waiting)),
    ]
    if view.experts is not None:
        figures.append(("Experts", Text(_experts(*view.experts), style="" if view.experts[0] else "yellow")))
    columns = 1 if narrow else 2
    table = Table.grid(expand=True, padding=(0, 1))
    for _ in range(columns):
        table.add_column(style="dim", no_wrap=True, width=9)
        table.add_column(ratio=1, no_wrap=True, overflow="ellipsis")
    for start in range(0, len(figures), columns):
        table.add_row(*(cell for figure in figures[start : start + columns] for cell in figure))
    return table


def _loss(view: View) -> str:
    return "not known yet" if view.loss is None else f"{view.loss:.3f}"


def _peers(view: View) -> str:
    return "only you so far" if view.peers <= 1 else f"{view.peers:,} peers"


def _samples(samples: int, per_second: float) -> str:
    count = f"{samples:,}" if samples < 10_000_000 else f"{samples / 1e6:,.1f} M"
    speed = f"{per_second:.1f}" if per_second < 10 else f"{per_second:,.0f}"
    return f"{count} samples, {speed}/s"


def _averaging(view: View) -> str:
    rounds = f"{view.averaging_rounds:,} round{'' if view.averaging_rounds == 1 else 's'}"
    return rounds if not view.averaging_failures else f"{rounds}, {view.averaging_failures:,} failed"


def _experts(answering: int, size: int) -> str:
    return f"{answering:,} of {size:,} answer"


def _share(part: int, whole: int) -> str:
    return f"{min(1.0, part / whole):.0%}"


def status_of(progress: "Progress", pause: "Pause | None" = None, *, has_state: bool) -> str:
    """What a peer does, in a few words."""
    if pause is not None:
        return f"pauses: {pause.reason}"
    if not has_state:
        return "loading the state of the run" if progress.peers > 1 else "waiting for the others"
    if progress.is_behind:
        return "catching up with the others"
    if progress.in_round:
        return "averaging"
    if progress.rests:
        return "averaging for the others" if progress.share else "following the others"
    return "training" if progress.peers > 1 else "training alone until others join"
