"""Tasks that may hang: each in a thread that the program does not wait for when it ends."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotDone
from typing import TypeVar

from app.doctor.results import TooLate

T = TypeVar("T")


def start(task: Callable[[], T]) -> "Future[T]":
    """Begin with a task."""
    future: Future[T] = Future()

    def work() -> None:
        try:
            future.set_result(task())
        except Exception as error:
            future.set_exception(error)

    threading.Thread(target=work, name="doctor", daemon=True).start()
    return future


def outcome(future: "Future[T]", until: float) -> T:
    """What a task returns or raises, at a time of the monotonic clock at the latest.

    Raises:
        TooLate: it is not done by then.
    """
    try:
        return future.result(max(0.0, until - time.monotonic()))
    except NotDone:
        if future.done():
            raise
        raise TooLate from None


def outcome_or(future: "Future[T]", until: float, otherwise: T) -> T:
    """The same; `otherwise` where it is not done by then."""
    try:
        return outcome(future, until)
    except TooLate:
        return otherwise
