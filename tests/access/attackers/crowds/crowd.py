"""A crowd at the door that says nothing: sockets that are held for as long as they can be, and opened anew."""

import asyncio
import contextlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from resource import RLIMIT_NOFILE, getrlimit, setrlimit

from tests.support.waiting import PATIENCE

SOCKETS = 1000
HEAD = b"GET /api/run HTTP/1.1\r\nHost: a\r\nX-Slow: "  # and then a byte now and then
BETWEEN_BYTES = 0.5  # seconds
BEFORE_ANOTHER = 1.0  # seconds from the end of a socket to the next one


@dataclass
class Crowd:
    """Every second socket is silent, the others send a head of a request that has no end."""

    host: str
    port: int
    source: str
    sockets: int = SOCKETS
    opened: int = 0
    held: int = 0  # now

    async def press(self) -> None:
        """Hold the sockets until this task is cancelled."""
        soft, hard = getrlimit(RLIMIT_NOFILE)
        setrlimit(RLIMIT_NOFILE, (max(soft, min(hard, 4 * self.sockets)), hard))
        await asyncio.gather(*(self._hold_one(trickles=number % 2 == 1) for number in range(self.sockets)))

    async def _hold_one(self, trickles: bool) -> None:
        while True:
            with contextlib.suppress(OSError):
                reader, writer = await asyncio.open_connection(self.host, self.port, local_addr=(self.source, 0))
                self.opened += 1
                self.held += 1
                try:
                    if trickles:
                        await self._trickle(writer)
                    else:
                        await reader.read()
                finally:
                    self.held -= 1
                    writer.close()
            await asyncio.sleep(BEFORE_ANOTHER)

    async def _trickle(self, writer: asyncio.StreamWriter) -> None:
        writer.write(HEAD)
        while not writer.is_closing():
            await writer.drain()
            await asyncio.sleep(BETWEEN_BYTES)
            writer.write(b"x")


@contextlib.contextmanager
def crowd_at(crowd: Crowd, patience: float = PATIENCE) -> Iterator[None]:
    """A crowd in a thread, each of whose sockets has been opened, for as long as the block runs.

    Raises:
        AssertionError: they could not be opened within `patience` seconds.
    """
    loop = asyncio.new_event_loop()
    task = loop.create_task(crowd.press())

    def run() -> None:
        with contextlib.suppress(asyncio.CancelledError):
            loop.run_until_complete(task)

    thread = threading.Thread(target=run, name="crowd", daemon=True)
    thread.start()
    try:
        pause = threading.Event()
        for _ in range(round(patience / 0.05)):
            if crowd.opened >= crowd.sockets:
                break
            pause.wait(0.05)
        assert crowd.opened >= crowd.sockets, f"only {crowd.opened} sockets were opened"
        yield
    finally:
        loop.call_soon_threadsafe(task.cancel)
        thread.join()
        loop.close()
