"""Waiting for something that a process or a page will do."""

import time
from collections.abc import Callable

PATIENCE = 60.0  # seconds for a process to begin to answer, on a busy machine


def wait_until(ready: Callable[[], bool], problem: str, patience: float = PATIENCE) -> None:
    """Look until it is so."""
    until = time.monotonic() + patience
    while not ready():
        assert time.monotonic() < until, problem
        time.sleep(0.1)
