"""Limits on connections of the HTTP server: how long each may take, and which are closed when there are too many.

uvicorn counts idle connections, too, and refuses requests when there are too many. It waits for ever for the rest of a
request and for a client that does not read, so one address could lock out everybody.
"""

import asyncio
from collections.abc import Collection
from typing import Protocol, TypeVar

from uvicorn.protocols.http.h11_impl import H11Protocol

from swarm.rate_limit import address_key

HEAD_PATIENCE = 10.0  # seconds for the whole head of a request
EXCHANGE_PATIENCE = 120.0  # seconds for request and answer, until the client has read the last byte


class OpenConnection(Protocol):
    """What `to_close` decides by."""

    @property
    def address(self) -> str:
        """The key of the client's address; see `address_key`."""

    @property
    def since(self) -> float:
        """When it was accepted, or when its last response was complete."""

    @property
    def waits(self) -> bool:
        """Whether it waits for its client: for the rest of a request, or until a response is read."""


T = TypeVar("T", bound=OpenConnection)


def to_close(connections: Collection[T]) -> list[T]:
    """The connections to close: the oldest quarter of those that wait, of the address that has most of them.

    So no address locks out another, and among many clients behind one router or proxy idle connections go first, new
    requests last. One that is being answered is not closed.
    """
    waiting: dict[str, list[T]] = {}
    for one in sorted((one for one in connections if one.waits), key=lambda one: one.since):
        waiting.setdefault(one.address, []).append(one)
    most = max(waiting.values(), key=lambda ones: (len(ones), -ones[0].since))
    return most[: len(most) // 4 + 1]


class Connection(H11Protocol):
    """uvicorn's connection with deadlines; of more than `most`, some are closed."""

    most: int
    address: str
    since: float
    _deadline: asyncio.TimerHandle | None = None

    @property
    def waits(self) -> bool:
        """See `OpenConnection`."""
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
        """Close it at once, without waiting for the client to read."""
        self.connections.discard(self)
        self.transport.abort()

    def _begin(self) -> None:
        """Wait for a request; other bytes do not extend the time."""
        self.since = self.loop.time()
        self._check_in(HEAD_PATIENCE)

    def _check_deadline(self) -> None:
        patience = EXCHANGE_PATIENCE if self._is_under_way() or self._is_unread() else HEAD_PATIENCE
        left = self.since + patience - self.loop.time()
        if left > 0:
            self._check_in(left)
        else:
            self.drop()

    def _check_in(self, seconds: float) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = self.loop.call_later(seconds, self._check_deadline)

    def _is_under_way(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _is_unread(self) -> bool:
        return self.transport.get_write_buffer_size() > 0


def connection_class(most: int) -> type[Connection]:
    """The protocol class of a server that holds at most so many connections."""
    return type("Connection", (Connection,), {"most": most})
