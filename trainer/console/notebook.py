"""What a volunteer sees in a notebook: pages that replace each other, written as one JSON line each.

A line maps media types to the page, as HTML and as plain text, which is the form in which notebooks display things.
"""

import io
import json
import os
import sys
import time
from collections import deque
from collections.abc import Sequence
from typing import TextIO

from rich.console import Console
from rich.text import Text

from swarm.leaving import ask_to_leave
from trainer.console.terminal_text import printable
from trainer.console.view import INDENT, WIDEST, ConsoleView, View, picture

LINES = 24  # newest messages that stay in sight
REDRAW_EVERY = 1.0  # seconds; each page travels through the notebook's server to a browser
HTML = (
    '<pre style="white-space:pre-wrap;line-height:1.25;'
    "font-family:Menlo,'DejaVu Sans Mono',consolas,'Courier New',monospace\">{code}</pre>"
)


class NotebookView(ConsoleView):
    """A `ConsoleView` whose pages are written to `output`; when that is closed, the peer is asked to leave.

    So a peer ends with its notebook, whose kernel may have been restarted or its machine taken away.
    """

    def __init__(self, output: TextIO | None = None):
        super().__init__(Console(file=io.StringIO(), force_terminal=True, width=WIDEST))
        self._output = output or sys.stdout
        self._lines: deque[str] = deque(maxlen=LINES)
        self._gone = False

    def _add_message(self, text: str) -> None:
        self._lines.append(f"{time.strftime('%H:%M')}  {text}")
        self._draw()

    def _end_with(self, text: str) -> None:
        self._open = False
        self._lines += text.splitlines()
        self._draw()

    def _close(self) -> None:
        if self._unseen:
            self._draw()
        self._open = False

    def _draw(self) -> None:
        if self._gone:
            return
        trend = [loss for _, loss in sorted(self._trend.items())]
        self._output.write(json.dumps(page(self._view, trend, list(self._lines))) + "\n")
        self._output.flush()
        self._shown(REDRAW_EVERY)

    def _lose_output(self) -> None:
        self._gone, self._open = True, False
        _discard_output()
        ask_to_leave()


def page(view: View | None, trend: Sequence[float], lines: Sequence[str]) -> dict[str, str]:
    """The messages, and the live view below them once there is one; by media type."""
    console = Console(file=io.StringIO(), record=True, force_terminal=True, width=WIDEST)
    for line in lines:
        console.print(Text(INDENT + printable(line)))
    if view is not None:
        console.print(picture(view, trend, (), WIDEST))
    plain = console.export_text(clear=False)
    return {"text/html": console.export_html(inline_styles=True, code_format=HTML), "text/plain": plain}


def _discard_output() -> None:
    """Discard what is written from now on: without a reader, each write would fail."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for descriptor in (1, 2):
        os.dup2(nowhere, descriptor)
