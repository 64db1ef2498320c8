"""What a volunteer lets averaging take of the line: bytes a second in each direction, over some seconds.

A part is sent or read at the line's own speed, and the next one waits until the cap has caught up. Gradients and states
are averaged in processes of their own, which share the cap. What travels beside (the DHT's records, passes) is some
kilobytes a second and is not counted.
"""

import asyncio
import contextlib
import multiprocessing
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Protocol, TypeVar

MEGABIT = 125_000.0  # bytes


class Message(Protocol):
    """What protocol buffers give."""

    def ByteSize(self) -> int:  # noqa: N802  (their name)
        """Bytes on the wire."""


M = TypeVar("M", bound=Message)


class Cap:
    """One direction. Made before the processes that share it are forked."""

    def __init__(self, speed: float):
        """`speed` in bytes a second."""
        self.speed = speed
        self._free_at = multiprocessing.Value("d", 0.0)  # monotonic seconds when what was let through is within the cap

    async def paced(self, messages: AsyncIterator[M]) -> AsyncIterator[M]:
        """The messages, each once those before it are within the cap."""
        async with contextlib.aclosing(messages):  # type: ignore[type-var]  # these are generators
            async for message in messages:
                await asyncio.sleep(self.reserve(message.ByteSize(), time.monotonic()))
                yield message

    def reserve(self, size: int, now: float) -> float:
        """Seconds to wait with a message of `size` bytes."""
        with self._free_at.get_lock():
            begin = max(now, self._free_at.value)
            self._free_at.value = begin + size / self.speed
        return begin - now


@dataclass(frozen=True)
class Caps:
    """Both directions; None: as fast as the line is."""

    upload: Cap | None = None
    download: Cap | None = None

    @classmethod
    def of(cls, upload: float | None, download: float | None) -> "Caps":
        """From Mbit a second."""
        up, down = (None if speed is None else Cap(speed * MEGABIT) for speed in (upload, download))
        return cls(up, down)

    def sent(self, messages: AsyncIterator[M]) -> AsyncIterator[M]:
        """What goes out, no faster than allowed."""
        return self.upload.paced(messages) if self.upload else messages

    def read(self, messages: AsyncIterator[M]) -> AsyncIterator[M]:
        """What comes in; what is not read waits with its sender, but for what buffers in between hold."""
        return self.download.paced(messages) if self.download else messages


NO_CAPS = Caps()
