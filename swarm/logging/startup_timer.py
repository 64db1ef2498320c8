"""Times the stages from the start of the process to the first sample."""

import contextlib
import time
from collections.abc import Callable, Iterator


class StartupTimer:
    """`with timer("joining the swarm"):` times a stage, and says it in one line when it has ended."""

    def __init__(self, say: Callable[[str], None] = lambda _: None):
        self._say = say

    @contextlib.contextmanager
    def __call__(self, stage: str) -> Iterator[None]:
        """Time this block as a stage."""
        began = time.perf_counter()
        try:
            yield
        finally:
            self._say(f"{stage}: {time.perf_counter() - began:.2f} s")
