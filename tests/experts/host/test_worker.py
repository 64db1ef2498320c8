"""The shell around the queue: what is computed together, and who is answered."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from experts.host.call_queue import Call, Direction
from experts.host.computing import Computing, Outcome
from experts.host.settings import ExpertSettings, HostLimits
from experts.host.worker import BUSY, Worker

SETTINGS = ExpertSettings(grid=(2,), width=4, hidden=4)


def call(caller: str, rows: int = 10) -> Call:
    return Call(caller, (0,), Direction.FORWARD, rows, b"")


class Slow(Computing):
    """Computes nothing until it may."""

    def __init__(self) -> None:
        super().__init__(SETTINGS)
        self.batches: list[Sequence[Call]] = []
        self.begun, self.may_end = threading.Event(), threading.Event()

    def compute(self, calls: Sequence[Call]) -> list[Outcome]:
        self.batches.append(calls)
        self.begun.set()
        assert self.may_end.wait(60.0)
        return [Outcome(one.caller.encode()) for one in calls]


def run(work: Callable[[Worker, Slow], Awaitable[Any]], **limits: Any) -> Slow:
    """Give a worker some work, and end it."""
    slow = Slow()

    async def working() -> None:
        worker = Worker(slow, HostLimits(**limits))
        running = asyncio.create_task(worker.run())
        try:
            await work(worker, slow)
        finally:
            slow.may_end.set()
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            assert not worker._waiting

    asyncio.run(working())
    return slow


async def begun(slow: Slow) -> None:
    assert await asyncio.to_thread(slow.begun.wait, 60.0)


def test_calls_that_come_while_one_is_computed_are_computed_together():
    async def work(worker: Worker, slow: Slow) -> None:
        first = asyncio.create_task(worker.answers([call("amina")]))
        await begun(slow)
        others = [asyncio.create_task(worker.answers([call(name), call(name)])) for name in ("bimal", "chitra")]
        await asyncio.sleep(0)
        slow.may_end.set()
        assert [one.data for one in await first] == [b"amina"]
        assert [[one.data for one in await other] for other in others] == [[b"bimal"] * 2, [b"chitra"] * 2]

    slow = run(work, longest_wait=0.0)
    assert [len(batch) for batch in slow.batches] == [1, 4]


def test_a_call_for_which_there_is_no_room_is_refused_at_once():
    async def work(worker: Worker, slow: Slow) -> None:
        first = asyncio.create_task(worker.answers([call("amina")]))
        await begun(slow)
        waiting = asyncio.create_task(worker.answers([call("bimal"), call("bimal")]))
        await asyncio.sleep(0)
        assert await worker.answers([call("bimal")]) == [BUSY]
        assert not waiting.done()
        slow.may_end.set()
        assert BUSY not in [*await first, *await waiting]

    run(work, longest_wait=0.0, most_calls=2)


def test_calls_of_a_caller_that_has_gone_are_not_computed():
    async def work(worker: Worker, slow: Slow) -> None:
        first = asyncio.create_task(worker.answers([call("amina")]))
        await begun(slow)
        gone = asyncio.create_task(worker.answers([call("bimal")]))
        stays = asyncio.create_task(worker.answers([call("chitra")]))
        await asyncio.sleep(0)
        gone.cancel()
        await asyncio.gather(gone, return_exceptions=True)
        slow.may_end.set()
        await asyncio.gather(first, stays)

    slow = run(work, longest_wait=0.0)
    assert [[one.caller for one in batch] for batch in slow.batches] == [["amina"], ["chitra"]]


def test_who_waits_when_the_worker_ends_is_not_left_waiting():
    ended: list[bool] = []

    async def work(worker: Worker, slow: Slow) -> None:
        first = asyncio.create_task(worker.answers([call("amina")]))
        await begun(slow)
        first.add_done_callback(lambda task: ended.append(task.cancelled()))

    run(work, longest_wait=0.0)
    assert ended == [True]


def test_what_is_refused_says_nothing_about_the_hosts_speed():
    async def work() -> None:
        worker = Worker(Computing(SETTINGS), HostLimits(longest_wait=0.0))
        running = asyncio.create_task(worker.run())
        before = worker.queue.speed
        assert [one.refused for one in await worker.answers([call("eve", 8000)])] == ["not here"]
        assert worker.queue.speed == before
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    asyncio.run(work())
