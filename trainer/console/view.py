"""What a volunteer sees: a live view in a terminal, or a plain line every few seconds elsewhere."""

import contextlib
import math
import sys
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from types import TracebackType

from rich.console import Console, Group
from rich.live import Live
from rich.padding import Padding
from rich.progress_bar import ProgressBar
from rich.text import Text

from swarm.language import _, several
from swarm.logging.logs import console_line
from trainer.console.terminal_text import fill, fit, printable, wrap
from trainer.console.terminal_text import width as width_of

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
        width, height = self._console.size
        self._live.update(picture(self._view, trend, self._messages, width, height), refresh=True)
        self._shown(REDRAW_EVERY)

    def _print_view(self) -> None:
        if self._view is not None:
            self._print_line(plain_line(self._view))
            self._shown(self._plain_every)

    def _shown(self, pause: float) -> None:
        self._unseen, self._next_show = False, time.monotonic() + pause

    def _print_line(self, line: str) -> None:
        self._console.print(Text(printable(line)), soft_wrap=True)


def picture(
    view: View, trend: Sequence[float], messages: Iterable[str], width: int, height: int = sys.maxsize
) -> Group:
    """The live view for a terminal of this size; `trend` holds the losses of the last global steps.

    The newest message is whole: in a low terminal empty lines make room for it, then figures, then the rest;
    older ones come last.
    Lines with text from outside end where the text ends: Rich would fill them up to the right edge,
    and a terminal that gives a vowel sign one column more than Rich does would break them there.
    """
    room = min(width, WIDEST) - 2 * len(INDENT)
    narrow = room < NARROW
    who = _("{name}, client mode").format(name=view.name) if view.client_mode else view.name
    drawn = ProgressBar(view.target_batch_size, view.step_samples, style="grey23", complete_style="cyan")
    bar = Padding(drawn, (0, max(0, width - room - len(INDENT)), 0, len(INDENT)))
    title = Text.assemble(INDENT, (view.run, "bold cyan"), "  ", (fit(who, room - len(view.run) - 2), "dim"))
    status = Text(INDENT + fit(view.status, room), style="italic dim")
    progress: list[Text | Padding] = [*_heading(view, room, narrow=narrow), bar, status]
    figures = _figures(view, trend, room, narrow=narrow)
    wrapped = [wrap(message, room) for message in messages]
    whole = [Text(), title, Text(), *progress, Text(), *figures, Text()]
    least = len(wrapped[-1]) if wrapped else 0
    stages = (whole, [title, *progress, *figures], [title, *progress], [status])
    parts = next((one for one in stages if len(one) + least <= height), [])
    lines: list[str] = []
    for message in reversed(wrapped):
        if lines and len(parts) + len(message) + len(lines) > height:
            break
        lines = message + lines
    parts += [Text(INDENT + line, style="dim") for line in lines]
    return Group(*parts)


def plain_line(view: View) -> str:
    """The view as one line of plain text."""
    parts = [
        _("global step {step} of {total}").format(step=f"{view.step:,}", total=f"{view.total_steps:,}"),
        _("{share} of the next step").format(share=_share(view.step_samples, view.target_batch_size)),
        _("loss {loss}").format(loss=_loss(view)),
        _peers(view),
        _("you {samples}").format(samples=_samples(view.own_samples, view.samples_per_second)),
        _("swarm {samples}").format(samples=_samples(view.swarm_samples, view.swarm_samples_per_second)),
        _("averaging {rounds}").format(rounds=_averaging(view)),
        _("waiting for text {share}").format(share=f"{view.data_wait_fraction:.1%}"),
        "" if view.experts is None else _("experts {answer}").format(answer=_experts(*view.experts)),
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


def _heading(view: View, room: int, *, narrow: bool) -> list[Text]:
    count, numbers = f"{view.step:,}", {"gathered": f"{view.step_samples:,}", "needed": f"{view.target_batch_size:,}"}
    step = Text(_("Global step {step} of {total}").format(step=count, total=f"{view.total_steps:,}"), style="dim")
    at = step.plain.index(count)
    step.stylize("not dim bold", at, at + len(count))
    samples = Text(_("{gathered} / {needed} samples").format(**numbers), style="dim")
    if narrow:
        return [Text(INDENT).append_text(fill(line, room)) for line in (step, samples)]
    return [Text(INDENT).append_text(fill(step, room - width_of(samples.plain))).append_text(samples)]


def _figures(view: View, trend: Sequence[float], room: int, *, narrow: bool) -> list[Text]:
    """The figures, two a line, or one where the terminal is narrow; no table of Rich, see `picture`."""
    failing = "yellow" if view.averaging_failures else ""
    waiting = "yellow" if view.data_wait_fraction > SLOW_DATA else ""
    figures = [
        (_("Loss"), Text.assemble((_loss(view), "bold"), " ", (sparkline(trend), "cyan"))),
        (_("Peers"), Text(_peers(view))),
        (_("You"), Text(_samples(view.own_samples, view.samples_per_second))),
        (_("Swarm"), Text(_samples(view.swarm_samples, view.swarm_samples_per_second))),
        (_("Averaging"), Text(_averaging(view), style=failing)),
        (_("Waiting"), Text(_("{share} for text").format(share=f"{view.data_wait_fraction:.1%}"), style=waiting)),
    ]
    if view.experts is not None:
        figures.append((_("Experts"), Text(_experts(*view.experts), style="" if view.experts[0] else "yellow")))
    columns = 1 if narrow else 2
    label_width = max(width_of(label) for label, _value in figures) + 1
    lines = []
    for start in range(0, len(figures), columns):
        line = Text(INDENT)
        for label, value in figures[start : start + columns]:
            line.append_text(fill(Text(label, style="dim"), label_width))
            line.append_text(fill(value, room // columns - label_width - 1)).append(" ")
        lines.append(line)
    return lines


def _loss(view: View) -> str:
    return _("not known yet") if view.loss is None else f"{view.loss:.3f}"


def _peers(view: View) -> str:
    return _("only you so far") if view.peers <= 1 else _("{n} peers").format(n=f"{view.peers:,}")


def _samples(samples: int, per_second: float) -> str:
    count = f"{samples:,}" if samples < 10_000_000 else _("{n} M").format(n=f"{samples / 1e6:,.1f}")
    speed = f"{per_second:.1f}" if per_second < 10 else f"{per_second:,.0f}"
    return _("{count} samples, {speed}/s").format(count=count, speed=speed)


def _averaging(view: View) -> str:
    rounds = several("{n} round", "{n} rounds", view.averaging_rounds).format(n=f"{view.averaging_rounds:,}")
    if not view.averaging_failures:
        return rounds
    return _("{rounds}, {n} failed").format(rounds=rounds, n=f"{view.averaging_failures:,}")


def _experts(answering: int, size: int) -> str:
    return _("{n} of {all} answer").format(n=f"{answering:,}", all=f"{size:,}")


def _share(part: int, whole: int) -> str:
    return f"{min(1.0, part / whole):.0%}"
