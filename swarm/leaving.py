"""Leaving at any moment: the first Ctrl-C or SIGTERM asks the loop to end, and a watchdog ends a process that hangs."""

import contextlib
import os
import queue
import signal
import termios
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType

import psutil

from swarm.errors import SwarmError

PATIENCE = 8.0  # seconds from the signal to the end, whatever the process waits for
AFTER_GRACE = 3.0  # seconds to the end from when a global step may no longer be finished: with GRACE and GOODBYE
# less than the ten that `docker stop` leaves
GOODBYE = 1.0  # second in which a goodbye has to be said
GRACE = 5.0  # seconds after SIGTERM to finish a global step in


class Asked(threading.Event):
    """Set when this process was asked to leave, or has failed."""

    until = 0.0  # monotonic seconds until which a begun global step may be finished
    status = 0  # with which the process has to end

    def fail(self, status: int = SwarmError.exit_status) -> None:
        """End with an error, whose reason was said: by default the process has lost the swarm."""
        self.status = status
        self.set()

    def left(self) -> float:
        """Seconds left to finish it."""
        return max(0.0, self.until - time.monotonic())


_asked: list[Asked] = []  # of the blocks of `leaving_on_signal` that this process is in


@contextlib.contextmanager
def leaving_on_signal(
    say_goodbye: Callable[[], None], *, patience: float = PATIENCE, grace: float = 0.0
) -> Iterator[Asked]:
    """Yield an event that SIGINT or SIGTERM sets; SIGTERM leaves `grace` seconds to finish what was begun.

    If the block has not ended `patience` seconds after the signal, nor `AFTER_GRACE` after the grace (it may be waiting
    for peers that are gone), `say_goodbye` is called and the process ends with the event's status. A second signal ends
    it at once.
    Enter it after hivemind's processes have started: they make the main process ignore SIGINT.
    """
    asked, left, signalled = Asked(), threading.Event(), False
    signals: queue.SimpleQueue[bool] = queue.SimpleQueue()  # whether there was one; the last of them is False

    def hand_over() -> None:
        if signals.get():
            asked.set()

    def watchdog() -> None:
        asked.wait()
        if not left.wait(max(patience, asked.left() + AFTER_GRACE)):
            _say(say_goodbye)
            end_process(asked.status)

    def on_signal(number: int, _frame: FrameType | None) -> None:
        nonlocal signalled
        if signalled or asked.is_set():
            _say(say_goodbye)
            end_process(asked.status)
        signalled = True
        if number == signal.SIGTERM:
            asked.until = time.monotonic() + grace
        signals.put(True)  # the code that it interrupts may hold the lock of `asked`

    before = {number: signal.signal(number, on_signal) for number in (signal.SIGINT, signal.SIGTERM)}
    for task in (hand_over, watchdog):
        threading.Thread(target=task, name="leaving", daemon=True).start()
    _asked.append(asked)
    try:
        yield asked
    finally:
        _asked.remove(asked)
        left.set()
        for number, handler in before.items():
            if handler is not None:
                signal.signal(number, handler)
        signals.put(False)


def _say(goodbye: Callable[[], None]) -> None:
    """Say it, unless it takes too long: the process may hang in writing to the same terminal."""
    thread = threading.Thread(target=goodbye, name="goodbye", daemon=True)
    thread.start()
    thread.join(GOODBYE)


def ask_to_leave() -> None:
    """Ask this process to leave as on Ctrl-C, from any thread; unlike a second Ctrl-C it does not cut leaving short."""
    if _asked:
        _asked[-1].set()
    else:  # it does nothing yet, or no longer, that has to end in order
        os.kill(os.getpid(), signal.SIGINT)


def end_at_once_on_signal(say_goodbye: Callable[[], None]) -> None:
    """Until `leaving_on_signal` takes over: SIGINT or SIGTERM ends this process and its helpers with status 130.

    A KeyboardInterrupt is not enough: code that runs while modules are imported and processes are forked may swallow
    it, and Python waits at the end for helpers that did not get it.

    The terminal shows again what is typed, as it did when this was called: a hidden question may be interrupted.
    """
    own = os.getpid()
    terminal = termios.tcgetattr(0) if os.isatty(0) else None

    def on_signal(_number: int, _frame: FrameType | None) -> None:
        if os.getpid() == own:  # helpers inherit this; for them it is the plain end
            # in the background it would change the terminal of another program, and be stopped for it
            with contextlib.suppress(OSError, termios.error):
                if terminal is not None and os.tcgetpgrp(0) == os.getpgrp():
                    termios.tcsetattr(0, termios.TCSANOW, terminal)
            say_goodbye()
            end_helpers()
        os._exit(130)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, on_signal)


def end_process(status: int = 0) -> None:
    """End this process and its helpers now."""
    end_helpers()
    os._exit(status)


def end_helpers() -> None:
    """Kill the processes that hivemind started for this one (the DHT node, libp2p's daemon)."""
    for child in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            # torch's own helper for shared memory leaves by itself, and aborts the process if it is killed
            if child.name() != "torch_shm_manager":
                child.kill()
