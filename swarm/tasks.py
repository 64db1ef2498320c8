"""Keeping what asyncio does, hearing of its failures, and ending it: in time, and for sure.

`asyncio.wait_for` is not used: before Python 3.12 it forgets that it was cancelled if what it waits for comes at the
same moment, and leaves its inner task behind if it is cancelled twice.
"""

import asyncio
import logging
import sys
from collections.abc import Callable, Collection, Coroutine
from typing import Any, TypeVar

if sys.version_info >= (3, 11):
    from asyncio import timeout as within
else:
    from async_timeout import timeout as within

__all__ = ["Tasks", "end_tasks", "within"]

logger = logging.getLogger(__name__)

T = TypeVar("T")

AGAIN = 1.0  # seconds between two cancellations; longer than a task takes to clean up


async def end_tasks(tasks: Collection["asyncio.Future[Any]"]) -> None:
    """Cancel tasks, and wait until all have ended; what they raise is passed over.

    To cancel once is not enough where a library waits with `asyncio.wait_for`.
    """
    while left := [one for one in tasks if not one.done()]:
        for one in left:
            one.cancel()
        await asyncio.wait(left, timeout=AGAIN)
    await asyncio.gather(*tasks, return_exceptions=True)


def _log_failure(error: BaseException) -> None:
    """Of a task that nobody waits for."""
    logger.error("a task has failed", exc_info=error)


class Tasks:
    """Tasks of an event loop, kept until they have ended: asyncio refers to them weakly.

    Args:
        failed: is told what one of them raises.
    """

    def __init__(self, failed: Callable[[BaseException], object] = _log_failure) -> None:
        self._failed = failed
        self._running: set[asyncio.Task[Any]] = set()

    def __len__(self) -> int:
        return len(self._running)

    def begin(self, work: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
        """Run it."""
        task = asyncio.get_running_loop().create_task(work)
        self.keep(task)
        return task

    def keep(self, task: "asyncio.Task[Any]") -> None:
        """Keep one that runs already."""
        self._running.add(task)
        task.add_done_callback(self._ended)

    async def cancel(self) -> None:
        """End all of them."""
        while self._running:  # one that is about to end may begin another
            await end_tasks(list(self._running))

    def _ended(self, task: "asyncio.Task[Any]") -> None:
        self._running.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._failed(error)
