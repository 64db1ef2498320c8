"""What a peer may make us keep, and for how long; and the share of it that all of them have together."""

import asyncio
import contextlib
import resource
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

OTHER_FILES = 1000  # that a process may have open beside streams
SMALL = 64 * 2**10  # bytes of a frame that is not counted among those that are being received


@dataclass(frozen=True)
class Limits:
    """The limits of one transport. Sizes in bytes, times in seconds."""

    control_frame: int = 2 * 2**20
    bulk_frame: int = 8 * 2**20
    control_queue: int = 8 * 2**20  # that waits for one peer
    bulk_queue: int = 64 * 2**20
    queue_entries: int = 2**16  # messages that wait for one peer in one lane
    receiving: int = 256 * 2**20  # of frames that are not small and not taken in yet, of all peers
    receiving_from_a_peer: int = 16 * 2**20
    streams: int = 2000
    streams_of_a_peer: int = 8
    strangers: int = 256  # streams without a hello yet, of which the oldest has to go
    hello: float = 15.0  # to open a stream, and to say hello
    idle: float = 60.0  # after which the streams of a silent peer are closed
    stall: float = 60.0  # for a frame to arrive, and as many more as `slowest` allows
    slowest: int = 16 * 2**10  # bytes a second
    first_retry: float = 0.5
    longest_retry: float = 15.0
    tend: float = 1.0  # between two looks at all streams

    def patience(self, size: int) -> float:
        """How long so many bytes may take."""
        return self.stall + size / self.slowest


def allow_open_files(count: int) -> int:
    """Let this process have so many files open, if it may: each stream is one, and systems begin with 256 or 1024.

    Returns how many it may have.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = count if hard == resource.RLIM_INFINITY else min(count, hard)
    if resource.RLIM_INFINITY != soft < wanted:
        with contextlib.suppress(ValueError, OSError):  # a system with limits of its own
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            return wanted
    return count if soft == resource.RLIM_INFINITY else soft


class Budget:
    """Bytes of frames that are being received and taken in; a peer that wants more waits.

    Args:
        total: for all peers together.
        each: for one of them.
    """

    def __init__(self, total: int, each: int):
        self._total, self._each = total, each
        self.taken = 0
        self._taken_by: Counter[str] = Counter()
        self._freed = asyncio.Event()

    @asynccontextmanager
    async def hold(self, peer: str, size: int) -> AsyncIterator[None]:
        """Wait until there is room for so many bytes, and take it; small frames always have room."""
        size = 0 if size <= SMALL else min(size, self._each, self._total)
        while size and (self.taken + size > self._total or self._taken_by[peer] + size > self._each):
            self._freed.clear()
            await self._freed.wait()
        self._take(peer, size)
        try:
            yield
        finally:
            self._take(peer, -size)
            self._freed.set()

    def _take(self, peer: str, size: int) -> None:
        self.taken += size
        self._taken_by[peer] += size
        if not self._taken_by[peer]:
            del self._taken_by[peer]
