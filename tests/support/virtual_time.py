"""An event loop whose clock goes on only when there is nothing to do: hours pass in a moment, in the same order."""

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from typing import Any

from swarm.tasks import end_tasks


class _NeverWaits(selectors.DefaultSelector):
    """Where a real loop would sleep, the clock is put forward."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> Any:
        """See the base class."""
        assert timeout is not None, "nothing will ever happen any more"
        self.now += max(0.0, timeout)
        return super().select(0)


class VirtualLoop(asyncio.SelectorEventLoop):
    """Work in other threads is no part of its time: what is to be waited for has to happen in the loop."""

    def __init__(self) -> None:
        self._virtual = _NeverWaits()
        super().__init__(self._virtual)

    def time(self) -> float:
        """Virtual seconds since the start."""
        return self._virtual.now


def in_virtual_time(course: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run a course to its end."""
    loop = VirtualLoop()
    try:
        loop.run_until_complete(course())
    finally:
        loop.run_until_complete(end_tasks(asyncio.all_tasks(loop)))
        loop.close()
