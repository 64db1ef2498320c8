"""What the volunteer of a host reads."""

import errno
import io

import pytest
from rich.console import Console

from app.hosting.console import PLAIN_EVERY, SPAN, HostConsole
from experts.directory.assignment import Holdings
from experts.grid import Uid
from experts.remote.hosting import Report

HIDDEN, SHOWN = "\x1b[?25l", "\x1b[?25h"  # the cursor


def report(serves: list[Uid], copies: list[Uid], answered: int = 0, rows: int = 0, problem: str = "") -> Report:
    holdings = Holdings("peer", dict.fromkeys(serves, 1), dict.fromkeys(copies, 1))
    return Report(holdings, answered, refused=3, rows=rows, served=rows // 3, problem=problem)


class Watched:
    """A console outside of a terminal, and the time."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch):
        self.now, self.out = 0.0, io.StringIO()
        monkeypatch.setattr("app.hosting.console.time.monotonic", lambda: self.now)
        self.console = HostConsole(Console(file=self.out, width=200))

    def lines(self) -> list[str]:
        """What came since the last call."""
        said = self.out.getvalue().splitlines()
        self.out.seek(0)
        self.out.truncate()
        return said


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Watched:
    return Watched(monkeypatch)


def test_what_is_served_is_said_when_it_changes(watched: Watched):
    with watched.console as console:
        console.show(report([(0, 1), (0, 0)], []))
        assert watched.lines()[0] == "Serving experts 0.0, 0.1; keeping copies of no expert."
        console.show(report([(0, 1), (0, 0)], []))
        assert watched.lines() == []
        console.show(report([(0, 0)], [(0, 1)]))
        assert watched.lines() == ["Serving expert 0.0; keeping copies of expert 0.1."]
        console.show(report([(0, at) for at in range(64)], []))
        assert watched.lines()[0].endswith("0.10, 0.11 and 52 more; keeping copies of no expert.")


def test_the_work_is_told_now_and_then_with_the_speed_of_late(watched: Watched):
    with watched.console as console:
        console.show(report([(0, 0)], []))
        watched.lines()
        for _ in range(round(PLAIN_EVERY / SPAN)):
            watched.now += SPAN
            console.show(report([(0, 0)], [], answered=round(2 * watched.now), rows=round(600 * watched.now)))
        work = "12,000 tokens served | 2.0 calls and 600 rows a second | 120 answered, 3 refused"
        assert watched.lines() == [f"serving 1 | copying 0 | {work}"]


def test_a_full_disk_is_told_once_and_that_it_is_over(watched: Watched):
    with watched.console as console:
        console.show(report([], []))
        watched.lines()
        for _ in range(2):
            console.show(report([], [], problem="the disk is full"))
        assert watched.lines() == ["problem: the disk is full"]
        console.show(report([], []))
        assert watched.lines() == ["The problem is over."]


def test_in_a_terminal_the_line_stays_in_place_below_the_messages():
    out = io.StringIO()
    with HostConsole(Console(file=out, width=60, force_terminal=True)) as console:
        console.show(report([(0, 0)], []))
        console.message("Good evening!\x1b[2J")
    assert "serving 1 | copying 0" in out.getvalue()
    assert "Good evening! [2J" in out.getvalue(), "nothing from outside moves the cursor"


def test_a_terminal_has_its_cursor_until_there_is_work_to_show_and_again_after_the_farewell():
    out = io.StringIO()
    with HostConsole(Console(file=out, width=60, force_terminal=True)) as console:
        console.message("Whose token?")
        assert HIDDEN not in out.getvalue(), "nothing is drawn over a question"
        console.show(report([(0, 0)], []))
        assert HIDDEN in out.getvalue()
        console.farewell("This host had to stop.")  # and the process ends, out of a signal handler
        assert out.getvalue().rindex(SHOWN) > out.getvalue().rindex(HIDDEN)
        assert out.getvalue().endswith("This host had to stop.\n")


class Gone(io.StringIO):
    def __init__(self, error: OSError):
        super().__init__()
        self.error = error

    def write(self, _text: str) -> int:
        raise self.error


@pytest.mark.parametrize("error", [OSError(errno.EIO, "the terminal was closed"), BrokenPipeError()])
def test_without_its_terminal_or_pipe_a_host_goes_on(error: OSError, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("os.dup2", lambda *_descriptors: None)  # Rich would silence our own output
    with HostConsole(Console(file=Gone(error))) as console:
        console.message("hello")
        console.show(report([(0, 0)], []))
