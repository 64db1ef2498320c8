"""What a newcomer's line carries up, before its first round: it sends bytes that nobody needs for a second or two.

How many of them the other side has confirmed is in the kernel's books (`measured.py`). Without a probe the others would
take the line for a usual one, and the first round would be as slow as the line.
"""

import time
from collections.abc import AsyncIterator, Callable

PIECE = 2**15  # bytes
LEAST, MOST = 1.0, 2.5  # seconds; TCP needs some of them to find out how fast it may send
ENOUGH = 2**22  # bytes after which LEAST seconds are enough: many times what buffers on the way hold
MOST_BYTES = 2**26


async def pieces(clock: Callable[[], float] = time.monotonic) -> AsyncIterator[bytes]:
    """What to send, as fast as it is taken; `clock` gives monotonic seconds."""
    began, sent = clock(), 0
    while sent < MOST_BYTES and clock() - began < (LEAST if sent >= ENOUGH else MOST):
        yield bytes(PIECE)
        sent += PIECE
