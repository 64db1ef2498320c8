"""The view in a notebook: one JSON line for each page, and an end when nobody reads them any more."""

import io
import json
import subprocess
import sys
from dataclasses import replace

import pytest

from tests.support.waiting import PATIENCE
from tests.trainer.console.test_view import HOSTILE, VIEW
from trainer.console.notebook import LINES, NotebookView, page

HTML, PLAIN = "text/html", "text/plain"


def pages(output: io.StringIO) -> list[dict[str, str]]:
    return [json.loads(line) for line in output.getvalue().splitlines()]


def test_messages_and_figures_are_one_page_that_replaces_the_one_before() -> None:
    output = io.StringIO()
    with NotebookView(output) as view:
        view.message("Joining bengali.")
        view.update(VIEW)
        view.update(replace(VIEW, step=1235))  # too soon to be drawn
        view.message("First sample counted.")
    view.farewell("Thank you!\nCome again.")
    first, *_, last = pages(output)
    assert "Joining bengali." in first[PLAIN] and "Global step" not in first[PLAIN]
    for text in ("Joining bengali.", "First sample counted.", "Global step 1,235", "9,876 samples", "Thank you!"):
        assert text in last[PLAIN]
    assert set(last) == {HTML, PLAIN} and last[HTML].startswith("<pre")


def test_a_quick_loop_is_drawn_once_in_a_while_and_its_last_view_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trainer.console.notebook.REDRAW_EVERY", PATIENCE)
    output = io.StringIO()
    with NotebookView(output) as view:
        for step in range(200):
            view.update(replace(VIEW, step=step))
    assert len(pages(output)) == 2
    assert "Global step 199" in pages(output)[-1][PLAIN]


def test_text_from_outside_is_neither_markup_nor_orders() -> None:
    shown = page(replace(VIEW, name="<b>rosa</b>", run="<script>"), [4.0, 3.9], [HOSTILE, "<img src=x>"])
    for tag in ("<b>", "<script>", "<img"):
        assert tag not in shown[HTML]
    assert "&lt;img src=x&gt;" in shown[HTML]
    assert "\x1b" not in shown[PLAIN] + shown[HTML] and "\u202e" not in shown[PLAIN]


def test_old_messages_make_room() -> None:
    output = io.StringIO()
    with NotebookView(output) as view:
        for number in range(LINES + 1):
            view.message(f"message {number}.")
    last = pages(output)[-1][PLAIN]
    assert "message 0." not in last and "message 1." in last


def test_when_nobody_reads_any_more_the_process_is_asked_once_to_leave() -> None:
    program = (
        "import signal, sys, time\n"
        "from trainer.console.notebook import NotebookView\n"
        "asked = []\n"
        "signal.signal(signal.SIGINT, lambda *_: asked.append(1))\n"
        "with NotebookView() as view:\n"
        "    view.message('ready')\n"
        "    sys.stdin.readline()\n"
        "    for _ in range(3):\n"
        "        view.message('more')\n"
        "view.farewell('thanks')\n"
        "print('nor does this disturb')\n"
        "sys.exit(40 + len(asked))\n"
    )
    peer = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert peer.stdin is not None and peer.stdout is not None
    assert b"ready" in peer.stdout.readline()
    peer.stdout.close()
    peer.stdin.write(b"\n")
    peer.stdin.close()
    assert peer.wait(PATIENCE) == 41
