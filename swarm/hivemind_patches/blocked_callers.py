"""Calls of peers that were refused too often are dropped before they are parsed.

Upstream parses and answers every call. Here a blocked peer (`swarm.access.refusals`) also waits for its answer: most
programs wait for one before they ask again.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any

from hivemind.p2p import PeerID
from hivemind.p2p.p2p_daemon_bindings.control import ControlClient

from swarm.access.refusals import is_blocked, set_caller
from swarm.rate_limit import Tarpit

DELAY = 0.3  # seconds until a blocked call is answered
MOST_DELAYED = 200  # calls at a time
LARGEST_DELAYED = 16 * 1024  # bytes of a call that is kept in memory meanwhile

_tarpit = Tarpit(DELAY, MOST_DELAYED)
_add_unary_handler = ControlClient.add_unary_handler
_stream_handler = ControlClient.stream_handler


class PeerBlocked(RuntimeError):
    """The caller was refused too often."""


def block_refused_callers() -> None:
    """For handlers that are added from now on, in this process and those that it forks."""
    ControlClient.add_unary_handler = add_unary_handler
    ControlClient.stream_handler = stream_handler


async def add_unary_handler(
    client: ControlClient, proto: str, handler: Callable[[bytes, PeerID], Awaitable[bytes]], balanced: bool = False
) -> None:
    """As upstream, but the handler is not called for blocked peers."""

    async def checked(request: bytes, peer: PeerID) -> bytes:
        if is_blocked(peer):
            if len(request) <= LARGEST_DELAYED:
                with contextlib.suppress(asyncio.CancelledError):  # hivemind never forgets a call that was cancelled
                    await _tarpit.wait()
            raise PeerBlocked("refused too often; call again later")
        set_caller(peer)  # each call is a task with a context of its own
        return await handler(request, peer)

    await _add_unary_handler(client, proto, checked, balanced)


async def stream_handler(
    client: ControlClient, proto: str, handler_cb: Callable[..., Awaitable[None]], balanced: bool = False
) -> None:
    """As upstream, but streams of blocked peers are closed."""

    async def checked(stream: Any, reader: Any, writer: Any) -> None:
        if is_blocked(stream.peer_id):
            await _tarpit.wait()
            writer.close()
            return
        set_caller(stream.peer_id)
        await handler_cb(stream, reader, writer)

    await _stream_handler(client, proto, checked, balanced)
