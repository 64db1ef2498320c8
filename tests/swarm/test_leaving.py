"""How a process ends that does not end by itself."""

import os
import pty
import select
import signal
import sys
import termios
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from swarm.errors import SwarmError
from swarm.leaving import ask_to_leave, leaving_on_signal
from tests.support.forked import start_function
from tests.support.waiting import wait_until

WHILE = 600.0  # seconds, longer than any test waits


def hang() -> None:
    """Failed, it ends with a status."""
    with leaving_on_signal(lambda: print("goodbye"), patience=0.1) as asked:  # noqa: T201
        asked.fail()
        time.sleep(WHILE)


def hang_in_a_goodbye() -> None:
    """It cannot say goodbye and ends all the same."""
    with leaving_on_signal(lambda: time.sleep(WHILE), patience=0.1) as asked:
        asked.set()
        time.sleep(WHILE)


def be_asked_twice() -> None:
    """A second signal ends one that cannot say goodbye."""
    with leaving_on_signal(lambda: time.sleep(WHILE), patience=WHILE):
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)


def leave_slowly() -> None:
    """What asks it to leave while it is leaving does not cut that short."""
    with leaving_on_signal(lambda: print("goodbye")) as asked:  # noqa: T201
        threading.Thread(target=ask_to_leave).start()
        assert asked.wait(WHILE)
        ask_to_leave()  # as when the run ends while a host hands over its experts
        print("left in order")  # noqa: T201


def be_asked_inside_the_event() -> None:
    """A signal may interrupt the event that it sets."""
    with leaving_on_signal(lambda: print("goodbye", flush=True)) as asked:  # noqa: T201
        with asked._cond:  # type: ignore[attr-defined]  # as in its `wait`
            signal.raise_signal(signal.SIGTERM)
        assert asked.wait(WHILE)
        print("asked")  # noqa: T201
        signal.raise_signal(signal.SIGINT)  # the second one ends it at once
        time.sleep(WHILE)


def be_interrupted() -> None:
    """One that has nothing to end in order is interrupted."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        ask_to_leave()
        time.sleep(WHILE)
    except KeyboardInterrupt:
        print("interrupted")  # noqa: T201


@pytest.mark.parametrize(
    ("program", "status", "said"),
    [
        (hang, SwarmError.exit_status, "goodbye\n"),
        (hang_in_a_goodbye, 0, ""),
        (be_asked_twice, 0, ""),
        (leave_slowly, 0, "left in order\n"),
        (be_asked_inside_the_event, 0, "asked\ngoodbye\n"),
        (be_interrupted, 0, "interrupted\n"),
    ],
)
def test_a_process_that_does_not_end_by_itself_is_ended(
    program: Callable[[], None], status: int, said: str, tmp_path: Path
):
    assert start_function(program, out=tmp_path / "said").wait() == status
    assert (tmp_path / "said").read_text() == said


ASKS = """
import getpass
from swarm.leaving import end_at_once_on_signal

end_at_once_on_signal(lambda: None)
getpass.getpass("token?")
"""


def test_the_terminal_shows_what_is_typed_again_after_a_hidden_question_was_interrupted():
    process, terminal = pty.fork()
    if process == 0:
        os.execv(sys.executable, [sys.executable, "-c", ASKS])
    try:
        said = b""
        while b"token?" not in said:
            assert select.select([terminal], [], [], WHILE)[0], said
            said += os.read(terminal, 1024)
        assert not shows_what_is_typed(terminal)
        os.write(terminal, b"\x03")
        wait_until(lambda: os.waitid(os.P_PID, process, os.WEXITED | os.WNOHANG | os.WNOWAIT), "its end")
        assert shows_what_is_typed(terminal)
    finally:
        os.kill(process, signal.SIGKILL)  # one that has ended is a zombie until the next line
        status = os.waitpid(process, 0)[1]
        os.close(terminal)
    assert os.waitstatus_to_exitcode(status) == 130


def shows_what_is_typed(terminal: int) -> bool:
    return bool(termios.tcgetattr(terminal)[3] & termios.ECHO)
