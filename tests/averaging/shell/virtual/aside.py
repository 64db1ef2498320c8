"""An executor in virtual time: what a shell has done aside takes so many seconds, or stands still."""

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future
from functools import partial
from typing import Any


class Aside(Executor):
    """Does one thing after the other, each at the end of so many virtual seconds."""

    def __init__(self, seconds: float):
        self.seconds = seconds
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[tuple[Future[Any], Callable[[], Any]]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._stands_still = False

    def submit(self, work: Callable[..., Any], /, *arguments: Any, **named: Any) -> "Future[Any]":
        """See `Executor`."""
        future: Future[Any] = Future()
        self._waiting.append((future, partial(work, *arguments, **named)))
        self._go_on()
        return future

    def stand_still(self) -> None:
        """Finish nothing before `go_on`."""
        self._stands_still = True
        if self._timer is not None:
            self._timer.cancel()

    def go_on(self) -> None:
        """After `stand_still`."""
        self._stands_still, self._timer = False, None
        self._go_on()

    def die(self) -> None:
        """Finish nothing."""
        self._waiting.clear()

    def _go_on(self) -> None:
        if self._timer is None and self._waiting and not self._stands_still:
            self._timer = self._loop.call_later(self.seconds, self._finish_one)

    def _finish_one(self) -> None:
        self._timer = None
        if self._waiting:
            future, work = self._waiting.popleft()
            try:
                result = work()
            except Exception as error:
                future.set_exception(error)
            else:
                future.set_result(result)
        self._go_on()
