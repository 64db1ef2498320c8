"""The steps of the way into a run, each with its time."""

import contextlib
import time
from collections.abc import Callable, Iterator


class Steps:
    """Times blocks, and tells each when it has ended, if anybody wants to hear it."""

    def __init__(self, say: Callable[[str], None] | None = None):
        self._say = say
        self.taken: dict[str, float] = {}  # seconds by step

    @contextlib.contextmanager
    def __call__(self, step: str) -> Iterator[None]:
        """A block that is a step of the way."""
        began = time.perf_counter()
        try:
            yield
        finally:
            self.taken[step] = time.perf_counter() - began
            if self._say is not None:
                self._say(f"{step}: {self.taken[step]:.2f} s")
