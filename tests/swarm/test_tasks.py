"""A task ends, also if it is cancelled at the moment in which it gets what it waits for; no failure is silent."""

import asyncio

import pytest

from swarm.tasks import Tasks, end_tasks


@pytest.mark.parametrize("turns", range(5))
async def test_a_task_ends_in_whatever_turn_of_the_loop_it_is_cancelled(turns: int) -> None:
    """In one of them Python 3.11's `wait_for` returns instead of being cancelled."""

    async def reads(queue: "asyncio.Queue[int]", taken: list[int]) -> None:
        while True:
            taken.append(await asyncio.wait_for(queue.get(), 60.0))

    queue, taken = asyncio.Queue[int](), list[int]()
    task = asyncio.create_task(reads(queue, taken))
    await asyncio.sleep(0.01)
    queue.put_nowait(1)
    for _ in range(turns):
        await asyncio.sleep(0)
    await asyncio.wait_for(end_tasks([task]), 30.0)
    assert task.cancelled()
    assert taken in ([], [1])


async def test_errors_of_tasks_are_passed_over_and_tasks_that_have_ended_are_left_alone() -> None:
    async def fails() -> None:
        try:
            await asyncio.sleep(60.0)
        finally:
            raise ValueError("while it ends")

    ended = asyncio.create_task(asyncio.sleep(0))
    await ended
    failing = asyncio.create_task(fails())
    await asyncio.sleep(0)
    await end_tasks([ended, failing])
    assert isinstance(failing.exception(), ValueError)


@pytest.mark.parametrize("is_told", [True, False], ids=["told", "logged"])
async def test_what_a_task_raises_is_told_once_and_its_cancellation_is_not(
    is_told: bool, caplog: pytest.LogCaptureFixture
) -> None:
    told: list[BaseException] = []

    async def fails() -> None:
        raise ValueError("no")

    tasks = Tasks(told.append) if is_told else Tasks()
    tasks.begin(asyncio.sleep(60.0))
    tasks.begin(fails())
    await asyncio.sleep(0.01)
    assert len(tasks) == 1
    await tasks.cancel()
    logged = [record.exc_info[1] for record in caplog.records if record.exc_info]
    assert [str(error) for error in (told if is_told else logged)] == ["no"]
    assert len(told) + len(logged) == 1
