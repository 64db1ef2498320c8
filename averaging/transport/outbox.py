"""What waits to be sent to a peer in one lane."""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import TypeAlias

from hivemind.utils import get_logger

from averaging.transport.wire import pack

logger = get_logger(__name__)

ROOM_FOR_LENGTH = 16  # bytes that a frame has beside message and payload, and some more
# bytes, or what makes them when their turn has come, and nothing if they are not needed any more
Payload: TypeAlias = bytes | Callable[[], bytes | None] | None


class Outbox:
    """A queue with an end. Payloads that are made later take no room before. `largest` is for a message, in bytes."""

    def __init__(self, most_bytes: int, most_entries: int, largest: int):
        self._most_bytes, self._most_entries, self._largest = most_bytes, most_entries, largest - ROOM_FOR_LENGTH
        self._entries: deque[tuple[bytes, Payload]] = deque()
        self._filled = asyncio.Event()
        self.size = 0  # bytes

    def put(self, encoded: bytes, payload: Payload) -> bool:
        """Whether there was room for the message."""
        size = _size(encoded, payload)
        if size > self._largest:
            logger.error(f"a message of {size:,} bytes cannot be sent; at most {self._largest:,} can")
            return False
        if len(self._entries) >= self._most_entries or self.size + size > self._most_bytes:
            return False
        self._entries.append((encoded, payload))
        self.size += size
        self._filled.set()
        return True

    async def take(self) -> bytes:
        """The next message with its payload, as soon as there is one. Several streams may take from a queue."""
        while True:
            while not self._entries:
                self._filled.clear()
                await self._filled.wait()
            encoded, payload = self._entries.popleft()
            self.size -= _size(encoded, payload)
            made = payload() if callable(payload) else payload
            if callable(payload) and made is None:
                continue
            if _size(encoded, made) <= self._largest:
                return pack(encoded, made)
            logger.error(f"a message of {_size(encoded, made):,} bytes cannot be sent; at most {self._largest:,} can")

    def clear(self) -> int:
        """Drop everything; returns how many messages that were."""
        dropped = len(self._entries)
        self._entries.clear()
        self.size = 0
        return dropped

    def __len__(self) -> int:
        return len(self._entries)


def _size(encoded: bytes, payload: Payload) -> int:
    return len(encoded) + (len(payload) if isinstance(payload, bytes) else 0)
