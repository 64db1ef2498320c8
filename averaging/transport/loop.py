"""The event loop in which everything of the averaging happens, in a thread of the peer's process."""

import asyncio
import concurrent.futures
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import uvloop
from hivemind.dht import DHT
from hivemind.p2p import P2P
from hivemind.utils import get_logger

from swarm.tasks import Tasks, end_tasks, within

logger = get_logger(__name__)

T = TypeVar("T")


class LoopEnded(RuntimeError):
    """The loop takes no more work."""


class LoopThread:
    """Make it after all processes that are forked. All methods may be called from other threads, none from its own."""

    def __init__(self, name: str = "averaging"):
        self._loop = uvloop.new_event_loop()
        self._loop.set_exception_handler(_log)
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._tasks = Tasks()
        self._takes_work = True
        self._thread.start()

    def call(self, work: Coroutine[Any, Any, T], timeout: float | None = None) -> T:
        """Run it in the loop, wait for it, and return or raise what it does.

        Raises:
            LoopEnded: the loop has been stopped.
            concurrent.futures.TimeoutError: it took longer than so many seconds, and is cancelled.
        """
        if not self._takes_work:
            work.close()
            raise LoopEnded("the loop was stopped")
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result(timeout)
        except concurrent.futures.CancelledError:
            raise LoopEnded("the loop was stopped") from None
        finally:
            future.cancel()

    def begin(self, work: Coroutine[Any, Any, Any]) -> None:
        """Run it in the loop, and do not wait for it; what it raises is logged."""
        self.soon(self._tasks.begin, work)

    def soon(self, function: Callable[..., object], *arguments: Any) -> None:
        """Call a function in the loop; nothing happens once the loop has been stopped."""
        if self._takes_work:
            self._loop.call_soon_threadsafe(function, *arguments)

    def stop(self, patience: float = 10.0) -> bool:
        """Cancel everything and end the thread; False if something has not ended within so many seconds."""
        assert threading.current_thread() is not self._thread, "a loop cannot wait for its own end"
        if not self._takes_work:
            return not self._thread.is_alive()
        self._takes_work = False
        ending = asyncio.run_coroutine_threadsafe(self._cancel_all(patience), self._loop)
        try:
            ending.result(patience + 1.0)
        except concurrent.futures.TimeoutError:
            logger.warning(f"the thread {self._thread.name} does not end: something holds up its event loop")
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(1.0 + patience)
        return not self._thread.is_alive()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
        finally:
            self._loop.close()

    async def _cancel_all(self, patience: float) -> None:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        try:
            async with within(patience):
                await end_tasks(others)
        except asyncio.TimeoutError:
            for task in (one for one in others if not one.done()):
                logger.warning(f"a task of the averaging does not end: {task.get_coro()!r}")
        await self._loop.shutdown_asyncgens()


async def join_daemon(dht: DHT) -> P2P:
    """A connection of this event loop's own to the DHT node's libp2p daemon; shut it down before the DHT."""
    return await P2P.replicate(await asyncio.to_thread(dht.run_coroutine, DHT._get_p2p_daemon_listen_maddr))


def _log(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    if isinstance(context.get("exception"), asyncio.CancelledError):
        return  # Python 3.11 asks a stream's task how it has failed also when it was cancelled, as at the end
    logger.error(f"in the averaging's event loop: {context.get('message')}", exc_info=context.get("exception"))
