"""The thread of the event loop: what runs in it, and its end."""

import asyncio
import concurrent.futures
import threading
from collections.abc import Iterator

import pytest

from averaging.transport.loop import LoopEnded, LoopThread


@pytest.fixture
def loop() -> Iterator[LoopThread]:
    thread = LoopThread("averaging-test")
    yield thread
    thread.stop()


async def double(number: int) -> int:
    await asyncio.sleep(0)
    return 2 * number


async def fail() -> None:
    raise ValueError("no")


def test_a_call_returns_and_raises_what_its_coroutine_does(loop: LoopThread):
    assert loop.call(double(21)) == 42
    with pytest.raises(ValueError, match="no"):
        loop.call(fail())


def test_a_call_that_takes_too_long_is_cancelled(loop: LoopThread):
    ended = threading.Event()
    loop.call(double(1))  # the thread runs: a call that has not begun would be cancelled before it could end

    async def forever() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    with pytest.raises(concurrent.futures.TimeoutError):
        loop.call(forever(), timeout=1.0)
    assert ended.wait(60)


def test_what_fails_in_a_callback_is_logged_but_not_what_was_cancelled(
    loop: LoopThread, caplog: pytest.LogCaptureFixture
):
    def ends_with(error: BaseException) -> None:
        raise error

    for error in (asyncio.CancelledError(), ValueError("no")):
        loop.soon(ends_with, error)
    loop.call(double(1))
    (logged,) = (record for record in caplog.records if record.name == "averaging.transport.loop")
    assert logged.exc_info is not None and logged.exc_info[0] is ValueError


def test_the_end_leaves_no_thread_and_no_task(loop: LoopThread):
    cleaned = []

    async def forever() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cleaned.append(1)

    for _ in range(5):
        loop.begin(forever())
    loop.call(double(1))
    assert loop.stop() and loop.stop()
    assert len(cleaned) == 5
    assert "averaging-test" not in {thread.name for thread in threading.enumerate()}
    loop.soon(print, "nothing happens")
    with pytest.raises(LoopEnded):
        loop.call(double(1))


def test_a_task_that_passes_over_one_cancellation_is_ended(loop: LoopThread):
    ended = []

    async def passes_over_one() -> None:
        for _ in range(2):
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                ended.append(1)

    loop.begin(passes_over_one())
    loop.call(double(1))
    assert loop.stop()
    assert len(ended) == 2


def test_a_task_that_does_not_end_does_not_hold_up_the_end(loop: LoopThread):
    release = threading.Event()

    async def stubborn() -> None:
        while not release.is_set():
            try:
                await asyncio.sleep(0.01)
            except asyncio.CancelledError:
                continue

    loop.begin(stubborn())
    loop.call(double(1))
    loop.stop(patience=0.2)
    release.set()
    assert "averaging-test" not in {thread.name for thread in threading.enumerate()}


def test_a_caller_that_waits_is_told_of_the_end(loop: LoopThread):
    waiting = threading.Event()
    told = []

    async def forever() -> None:
        waiting.set()
        await asyncio.Event().wait()

    def call() -> None:
        try:
            loop.call(forever())
        except LoopEnded:
            told.append(1)

    caller = threading.Thread(target=call)
    caller.start()
    assert waiting.wait(60) and loop.stop()
    caller.join(60)
    assert told
