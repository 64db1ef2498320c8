"""Waiting for what another thread, process or page does. No test is about how long that takes."""

import time
from collections.abc import Callable

PATIENCE = 240.0  # seconds, less than a test may last: what has not happened by then does not happen on any machine
LOOK_EVERY = 0.02  # seconds


def wait_until(
    happened: Callable[[], object], what: str | Callable[[], str], patience: float = PATIENCE, every: float = LOOK_EVERY
) -> None:
    """Look until it has happened.

    Raises:
        AssertionError: it has not within `patience` seconds; it names `what`, which may be asked then.
    """
    deadline = time.monotonic() + patience
    while not happened():
        assert time.monotonic() < deadline, f"no {what() if callable(what) else what} within {patience:.0f} s"
        time.sleep(every)
