"""Another session: its streams, what waits for them, and when to try again."""

import asyncio
import time

from hivemind.p2p import PeerID

from averaging.log.header import peer_of
from averaging.transport.limits import Limits
from averaging.transport.stream import Outbox, Stream
from averaging.transport.wire_format import Lane, is_session_of

LOOK_EVERY = 0.02  # seconds, while something is waited for


class Remote:
    """A session that there is something to tell, or that has a stream to us.

    Raises:
        ValueError: this is no session's name.
    """

    def __init__(self, session: str, limits: Limits):
        self.session, self.peer_id = session, PeerID.from_base58(peer_of(session))
        if not is_session_of(session, self.peer_id.to_base58()):
            raise ValueError(f"{session!r:.80} is no session")
        self._limits = limits
        self.outboxes = {
            Lane.CONTROL: Outbox(limits.control_queue, limits.queue_entries, limits.control_frame),
            Lane.BULK: Outbox(limits.bulk_queue, limits.queue_entries, limits.bulk_frame),
        }
        self.shown: bytes | None = None  # its pass; None: it has not said hello yet
        self.sees_us_at = ""  # a multiaddr, as it says; empty: it has said none
        self.streams: set[Stream] = set()
        self.opening: set[Lane] = set()
        self._pauses = dict.fromkeys(Lane, limits.first_retry)  # after the next failure, in seconds
        self._retry_at = dict.fromkeys(Lane, float("-inf"))
        self._active_at = time.monotonic()

    def on(self, lane: Lane) -> list[Stream]:
        """Its streams in a lane."""
        return [stream for stream in self.streams if stream.lane is lane]

    def needs_stream(self, lane: Lane) -> bool:
        """Whether one is to be opened, if there is something to send."""
        return not self.on(lane) and lane not in self.opening and time.monotonic() >= self._retry_at[lane]

    def failed(self, lane: Lane) -> None:
        """Try again later, and later still after the next failure."""
        self._retry_at[lane] = time.monotonic() + self._pauses[lane]
        self._pauses[lane] = min(2 * self._pauses[lane], self._limits.longest_retry)

    def ended(self, lane: Lane, *, has_lasted: bool) -> None:
        """A stream that has lasted was a success: the next failure is the first one."""
        if has_lasted:
            self._pauses[lane], self._retry_at[lane] = self._limits.first_retry, float("-inf")
        else:
            self.failed(lane)

    def is_idle(self) -> bool:
        """Whether nothing was said for long."""
        self._active_at = max([self._active_at, *(stream.active_at for stream in self.streams)])
        return not self.opening and time.monotonic() >= self._active_at + self._limits.idle

    @property
    def received_bytes(self) -> int:
        """Of bulk, over the streams that there are, unfinished messages included."""
        return sum(stream.received_bytes for stream in self.on(Lane.BULK))

    async def flushed(self) -> None:
        """Wait until it has taken in what was sent to it, if there is a stream or will be."""
        while self._has_more_to_send():
            await asyncio.sleep(LOOK_EVERY)

    def _has_more_to_send(self) -> bool:
        """Whether something waits for a stream that there is or will be, is written in part, or is on its way."""
        waits = bool(self.streams or self.opening) and any(map(len, self.outboxes.values()))
        return waits or any(one.is_open and (one.is_in_message or one.window.in_flight) for one in self.streams)
