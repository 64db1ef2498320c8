"""Connections of the HTTP server: how long each may take, and which one makes room for another.

uvicorn counts an idle connection like one at work, and refuses requests when there are too many; and it waits without
an end for the rest of a request, and for a client that does not read. One address could shut everybody out.
"""

import asyncio
from collections.abc import Collection
from typing import Protocol, TypeVar

from uvicorn.protocols.http.h11_impl import H11Protocol

from swarm.rate_limit import address_key

HEAD_PATIENCE = 10.0  # seconds for the head of a request, in however many pieces it comes
EXCHANGE_PATIENCE = 120.0  # seconds for request and answer, until the client has read the last byte


class Held(Protocol):
    """What the choice depends on."""

    @property
    def address(self) -> str:
        """What counts as one address."""

    @property
    def since(self) -> float:
        """When it was accepted, or its last answer was complete."""

    @property
    def waits(self) -> bool:
        """Whether its client has something to do: send the rest of a request, or read an answer."""


T = TypeVar("T", bound=Held)


def to_close(held: Collection[T]) -> list[T]:
    """The connections that make room: the oldest quarter of those that wait, of the address that has most of them.

    So connections of one address, a crowd behind a router or a reverse proxy among them, shut out nobody: those that
    are held in vain go first, a request that has just come in goes last, and one that is being answered is not closed.
    """
    waiting: dict[str, list[T]] = {}
    for one in sorted((one for one in held if one.waits), key=lambda one: one.since):
        waiting.setdefault(one.address, []).append(one)
    most = max(waiting.values(), key=lambda ones: (len(ones), -ones[0].since))
    return most[: len(most) // 4 + 1]


class Connection(H11Protocol):
    """uvicorn's connection, with deadlines, one of at most `most` that make room for each other."""

    most: int
    address: str
    since: float
    _deadline: asyncio.TimerHandle | None = None

    @property
    def waits(self) -> bool:
        """See `Held`."""
        return not self._is_under_way() or self.cycle.more_body or self._is_unread()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """See upstream."""
        super().connection_made(transport)
        self.address = address_key(self.client[0] if self.client else "")
        self._begin()
        if len(self.connections) > self.most:  # this one waits, too
            for one in to_close([one for one in self.connections if isinstance(one, Connection)]):
                one.drop()

    def on_response_complete(self) -> None:
        """See upstream."""
        self._begin()
        super().on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """See upstream."""
        if self._deadline is not None:
            self._deadline.cancel()
        super().connection_lost(exc)

    def drop(self) -> None:
        """Close it now: its client may never read what is still to be sent."""
        self.connections.discard(self)
        self.transport.abort()

    def _begin(self) -> None:
        """Wait for a request; bytes that are none do not make the time longer."""
        self.since = self.loop.time()
        self._look_in(HEAD_PATIENCE)

    def _look(self) -> None:
        patience = EXCHANGE_PATIENCE if self._is_under_way() or self._is_unread() else HEAD_PATIENCE
        left = self.since + patience - self.loop.time()
        if left > 0:
            self._look_in(left)
        else:
            self.drop()

    def _look_in(self, seconds: float) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = self.loop.call_later(seconds, self._look)

    def _is_under_way(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _is_unread(self) -> bool:
        return self.transport.get_write_buffer_size() > 0


def connections(most: int) -> type[Connection]:
    """The protocol of a server that holds at most so many connections."""
    return type("Connection", (Connection,), {"most": most})
