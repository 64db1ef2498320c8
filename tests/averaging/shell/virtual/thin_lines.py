"""Lines that carry so many bytes a second each way, in virtual time: those who send over one at a time share it."""

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from averaging.bandwidth import Meter, OwnLine
from averaging.log.header import peer_of

SLICE = 512  # bytes that pass at a time
Payload = Callable[[], bytes | None]


@dataclass
class Parcel:
    """A message with its payload, on its way."""

    payload: Payload  # called when its turn has come; nothing goes if it returns None
    passed: Callable[[bytes, bool], None]  # a slice is through; whether it was the last
    content: bytes | None = None
    at: int = 0


class Line:
    """One direction of a line. Each flow is a queue; flows take turns.

    Args:
        speed: bytes a second.
        meter: is told what a transport's streams would tell it.
    """

    def __init__(self, speed: float, meter: Meter):
        self._speed, self._meter = speed, meter
        self._flows: dict[str, deque[Parcel]] = {}
        self._is_busy = False
        self.carried = 0  # bytes

    def put(self, flow: str, parcel: Parcel) -> None:
        """One more."""
        self._flows.setdefault(flow, deque()).append(parcel)
        if not self._is_busy:
            self._is_busy = True
            self._meter.begin()
            self._next()

    def _next(self) -> None:
        while self._flows:
            flow, parcels = next(iter(self._flows.items()))
            del self._flows[flow]
            parcel = parcels.popleft()
            if parcel.content is None:
                parcel.content = parcel.payload()
            if parcel.content is not None:
                part = parcel.content[parcel.at : parcel.at + SLICE]
                parcel.at += SLICE
                is_last = parcel.at >= len(parcel.content)
                if not is_last:
                    parcels.appendleft(parcel)
                if parcels:
                    self._flows[flow] = parcels  # behind the others
                self.carried += len(part)
                asyncio.get_running_loop().call_later(len(part) / self._speed, self._through, parcel, part, is_last)
                return
            if parcels:
                self._flows[flow] = parcels
        self._is_busy = False
        self._meter.end()

    def _through(self, parcel: Parcel, part: bytes, is_last: bool) -> None:
        self._meter.carried(len(part))
        parcel.passed(part, is_last)
        self._next()


class Lines:
    """Of some peers, by name; those of the others carry everything at once."""

    def __init__(self, speeds: dict[str, float]):
        self.own = {name: OwnLine(clock=lambda: asyncio.get_running_loop().time()) for name in speeds}
        self.up = {name: Line(speed, self.own[name].upload.meter) for name, speed in speeds.items()}
        self.down = {name: Line(speed, self.own[name].download.meter) for name, speed in speeds.items()}

    def carry(
        self, sender: str, receiver: str, payload: Payload, moving: Callable[[], None], arrive: Callable[[bytes], None]
    ) -> bool:
        """Send a payload over the lines between two sessions; False if there is none."""
        ways = [line for line in (self.up.get(peer_of(sender)), self.down.get(peer_of(receiver))) if line is not None]
        if not ways:
            return False
        *first, last = ways
        come: list[bytes] = []

        def passed(part: bytes, is_last: bool) -> None:
            come.append(part)
            moving()
            if is_last:
                arrive(b"".join(come))

        if first:
            sent: list[bytes] = []

            def through(part: bytes, is_last: bool) -> None:
                sent.append(part)
                if is_last:
                    last.put(sender, Parcel(lambda: b"".join(sent), passed))

            first[0].put(receiver, Parcel(payload, through))
        else:
            last.put(sender if last is self.down.get(peer_of(receiver)) else receiver, Parcel(payload, passed))
        return True
