"""A limit on attempts: so many for each key within a time window, in bounded memory."""

import asyncio
import math
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from ipaddress import IPv6Address, ip_address


class RateLimit:
    """At most `attempts` (at least 1) for a key within `window` seconds. Threads may share a limit.

    Refused attempts are not counted: a caller that keeps trying is let through when the window has passed. Of more than
    `keys` keys, the one that was quiet for longest is forgotten.
    """

    def __init__(
        self, attempts: int, window: float, *, keys: int = 10_000, clock: Callable[[], float] = time.monotonic
    ):
        self._attempts, self._window, self._keys, self._clock = attempts, window, keys, clock
        self._seen: OrderedDict[str, deque[float]] = OrderedDict()
        self._lock = threading.Lock()

    def attempt(self, key: str) -> int | None:
        """Count an attempt. None if it may go on, else the whole seconds after which the next one may."""
        now = self._clock()
        with self._lock:
            times = self._seen[key] = self._recent(key, now)
            self._seen.move_to_end(key)
            if len(times) >= self._attempts:
                return max(1, math.ceil(times[0] + self._window - now))
            times.append(now)
            while len(self._seen) > self._keys:
                self._seen.popitem(last=False)
        return None

    def is_reached(self, key: str) -> bool:
        """Whether an attempt would be refused now; counts none."""
        with self._lock:
            return len(self._recent(key, self._clock())) >= self._attempts

    def _recent(self, key: str, now: float) -> deque[float]:
        times = self._seen.get(key, deque())
        while times and times[0] <= now - self._window:
            times.popleft()
        return times

    def __len__(self) -> int:
        return len(self._seen)


class Tarpit:
    """Delays refusals: a caller that waits for each answer asks less often.

    At most `most` callers wait at a time, because waiting calls take memory. For the tasks of one event loop.
    """

    def __init__(self, seconds: float, most: int):
        self._seconds, self._most = seconds, most
        self._waiting = 0

    async def wait(self) -> None:
        """Wait, unless too many callers do."""
        if self._waiting >= self._most:
            return
        self._waiting += 1
        try:
            await asyncio.sleep(self._seconds)
        finally:
            self._waiting -= 1


def address_key(host: str) -> str:
    """The key of an address: an IPv6 customer has 2**64 of them, and an IPv4 address may come inside IPv6."""
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is not None:
            return str(address.ipv4_mapped)
        return f"{IPv6Address(int(address) >> 64 << 64)}/64"
    return str(address)
