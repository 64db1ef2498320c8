"""How a process ends that does not end by itself."""

import os
import pty
import select
import signal
import sys
import termios
import threading
import time
from pathlib import Path

from swarm.errors import SwarmError
from swarm.leaving import ask_to_leave, leaving_on_signal
from tests.support.forked import start_function
from tests.support.waiting import wait_until

WHILE = 60.0  # seconds


def test_a_process_that_failed_and_hangs_ends_with_a_status(tmp_path: Path):
    process = start_function(hang, out=tmp_path / "said")
    assert process.wait(WHILE / 2) == SwarmError.exit_status
    assert (tmp_path / "said").read_text() == "goodbye\n"


def hang() -> None:
    with leaving_on_signal(lambda: print("goodbye"), patience=0.1) as asked:  # noqa: T201
        asked.fail()
        time.sleep(WHILE)


def test_a_process_that_cannot_say_goodbye_ends_all_the_same(tmp_path: Path):
    process = start_function(hang_in_a_goodbye, out=tmp_path / "said")
    assert process.wait(WHILE / 2) == 0


def hang_in_a_goodbye() -> None:
    with leaving_on_signal(lambda: time.sleep(WHILE), patience=0.1) as asked:
        asked.set()
        time.sleep(WHILE)


def test_a_second_signal_ends_a_process_that_cannot_say_goodbye(tmp_path: Path):
    process = start_function(be_asked_twice, out=tmp_path / "said")
    assert process.wait(WHILE / 2) == 0


def be_asked_twice() -> None:
    with leaving_on_signal(lambda: time.sleep(WHILE), patience=WHILE):
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)


def test_what_asks_a_process_to_leave_that_is_leaving_does_not_cut_that_short(tmp_path: Path):
    process = start_function(leave_slowly, out=tmp_path / "said")
    assert process.wait(WHILE) == 0
    assert (tmp_path / "said").read_text() == "left in order\n"


def leave_slowly() -> None:
    with leaving_on_signal(lambda: print("goodbye")) as asked:  # noqa: T201
        threading.Thread(target=ask_to_leave).start()
        assert asked.wait(WHILE)
        ask_to_leave()  # as when the run ends while a host hands over its experts
        print("left in order")  # noqa: T201


def test_a_signal_may_interrupt_the_event_that_it_sets(tmp_path: Path):
    process = start_function(be_asked_inside_the_event, out=tmp_path / "said")
    assert process.wait(WHILE) == 0
    assert (tmp_path / "said").read_text() == "asked\ngoodbye\n"


def be_asked_inside_the_event() -> None:
    with leaving_on_signal(lambda: print("goodbye", flush=True)) as asked:  # noqa: T201
        with asked._cond:  # type: ignore[attr-defined]  # as in its `wait`
            signal.raise_signal(signal.SIGTERM)
        assert asked.wait(WHILE)
        print("asked")  # noqa: T201
        signal.raise_signal(signal.SIGINT)  # the second one ends it at once
        time.sleep(WHILE)


def test_a_process_that_has_nothing_to_end_in_order_is_interrupted(tmp_path: Path):
    process = start_function(be_interrupted, out=tmp_path / "said")
    assert process.wait(WHILE) == 0
    assert (tmp_path / "said").read_text() == "interrupted\n"


def be_interrupted() -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        ask_to_leave()
        time.sleep(WHILE)
    except KeyboardInterrupt:
        print("interrupted")  # noqa: T201


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
