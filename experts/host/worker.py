"""The shell of a host's machine: an asyncio queue in front of one computing thread."""

import asyncio
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from hivemind.utils import get_logger

from experts.host.call_queue import Call, CallQueue
from experts.host.computing import Computing, Outcome
from experts.host.settings import HostLimits
from swarm.tasks import within

logger = get_logger(__name__)

T = TypeVar("T")
BUSY = Outcome(refused="busy")
FAILED = Outcome(refused="the host failed")


class Worker:
    """Takes calls in the event loop, and computes them in a thread of its own."""

    def __init__(self, computing: Computing, limits: HostLimits):
        self.computing, self.limits = computing, limits
        self.queue = CallQueue(limits)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="experts")
        self._waiting: dict[int, tuple[Call, asyncio.Future[Outcome]]] = {}  # by the identity of the call
        self._changed = asyncio.Event()
        self.answered = self.refused = 0  # calls

    async def run(self) -> None:
        """Compute what comes, until cancelled."""
        try:
            while True:
                self._changed.clear()
                due = self.queue.due_in(time.monotonic())
                if due == 0.0:
                    await self._compute(self.queue.take())
                    continue
                try:
                    async with within(due):
                        await self._changed.wait()
                except asyncio.TimeoutError:
                    continue
        finally:
            self._thread.shutdown(wait=False, cancel_futures=True)
            for _, answer in self._waiting.values():
                answer.cancel()

    async def answers(self, calls: Sequence[Call]) -> list[Outcome]:
        """The answers to calls, in their order; those for which there is no room are refused at once."""
        waiting = [self._offer(call) for call in calls]
        try:
            return list(await asyncio.gather(*waiting))
        finally:
            for call in calls:  # of a caller that has gone
                if self._waiting.pop(id(call), None):
                    self.queue.forget(call)

    async def finish(self, patience: float) -> None:
        """Until all calls that wait are answered, at most so many seconds."""
        if waiting := [answer for _, answer in self._waiting.values()]:
            await asyncio.wait(waiting, timeout=patience)

    async def between(self, work: Callable[..., T], *arguments: Any) -> T:
        """Call a function in the computing thread, between two batches: it may change and save experts."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, work, *arguments)

    def _offer(self, call: Call) -> "asyncio.Future[Outcome]":
        answer: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self._waiting[id(call)] = call, answer
        for refused in self.queue.offer(call, time.monotonic()):
            self._answer(refused, BUSY)
        self._changed.set()
        return answer

    async def _compute(self, batch: list[Call]) -> None:
        begin = time.monotonic()
        try:
            outcomes = await self.between(self.computing.compute, batch)
        except Exception:
            logger.exception("a batch of calls could not be computed")
            outcomes = [FAILED] * len(batch)
        answered = [call for call, outcome in zip(batch, outcomes, strict=True) if not outcome.refused]
        self.queue.computed(answered, time.monotonic() - begin)  # refusing takes next to no time
        for call, outcome in zip(batch, outcomes, strict=True):
            self._answer(call, outcome)

    def _answer(self, call: Call, outcome: Outcome) -> None:
        self.answered += not outcome.refused
        self.refused += bool(outcome.refused)
        _, answer = self._waiting.pop(id(call), (None, None))
        if answer is not None and not answer.done():
            answer.set_result(outcome)
