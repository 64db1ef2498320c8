"""Ending what asyncio does: in time, and for sure.

`asyncio.wait_for` is not used: before Python 3.12 it forgets that it was cancelled if what it waits for comes at the
same moment, and leaves its inner task behind if it is cancelled twice.
"""

import asyncio
import sys
from collections.abc import Collection
from typing import Any

if sys.version_info >= (3, 11):
    from asyncio import timeout as within
else:
    from async_timeout import timeout as within

__all__ = ["end_tasks", "within"]

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
