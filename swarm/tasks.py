"""Ending tasks of asyncio for sure."""

import asyncio
from collections.abc import Collection
from typing import Any

AGAIN = 1.0  # seconds between two cancellations; longer than a task takes to clean up


async def end_tasks(tasks: Collection["asyncio.Future[Any]"]) -> None:
    """Cancel tasks, and wait until all have ended; what they raise is passed over.

    To cancel once is not enough. Before Python 3.12, `asyncio.wait_for` forgets that it was cancelled if what it waits
    for comes at the same moment, so a task that reads a busy stream goes on.
    """
    while left := [one for one in tasks if not one.done()]:
        for one in left:
            one.cancel()
        await asyncio.wait(left, timeout=AGAIN)
    await asyncio.gather(*tasks, return_exceptions=True)
