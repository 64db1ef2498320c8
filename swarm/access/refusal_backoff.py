"""Whoever is refused again and again is not listened to for a while.

To refuse a call costs a millisecond or two: it is parsed, and signatures are checked. Somebody who asks on and on
would have a share of every peer's processor without a pass. Who calls is on the word of libp2p, never on his own or a
third one's, so nobody can bring this upon another. Each process of a peer counts for itself, and makes up its mind
before it parses. It also lets him wait: most wait for an answer before they ask again.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import Any

from hivemind.p2p import PeerID
from hivemind.p2p.p2p_daemon_bindings.control import ControlClient

from swarm.rate_limit import RateLimit, Tarpit

MOST_REFUSALS = 20  # within WINDOW; a laptop that wakes up with an old pass calls some times until it has a new one
WINDOW = 20.0  # seconds

HELD_UP = 0.3  # seconds before a call is not heard
MOST_HELD_UP = 200  # calls at a time
LARGEST_HELD_UP = 16 * 1024  # bytes of a call that is kept while it waits

_refusals = RateLimit(MOST_REFUSALS, WINDOW)
_tarpit = Tarpit(HELD_UP, MOST_HELD_UP)
_caller: ContextVar[PeerID | None] = ContextVar("caller", default=None)  # of the call that is being answered
_add_unary_handler = ControlClient.add_unary_handler
_stream_handler = ControlClient.stream_handler


class ShutOut(RuntimeError):
    """A peer was refused too often, and is not heard."""


def shut_out_whoever_is_refused() -> None:
    """For handlers that are added from now on, in this process and those that it forks."""
    ControlClient.add_unary_handler = add_unary_handler
    ControlClient.stream_handler = stream_handler


def caller() -> PeerID | None:
    """Who makes the call that is being answered, on libp2p's word; None outside of such a call."""
    return _caller.get()


def note_refusal(peer: PeerID | None = None) -> None:
    """Count that something of this peer was refused; by default the call that is being answered."""
    refused = peer or caller()
    if refused is not None:
        _refusals.attempt(refused.to_base58())


def is_shut_out(peer: PeerID) -> bool:
    """Whether not to hear somebody at all."""
    return _refusals.is_reached(peer.to_base58())


async def add_unary_handler(
    client: ControlClient, proto: str, handler: Callable[[bytes, PeerID], Awaitable[bytes]], balanced: bool = False
) -> None:
    """See upstream."""

    async def heard(request: bytes, peer: PeerID) -> bytes:
        if is_shut_out(peer):
            if len(request) <= LARGEST_HELD_UP:
                with contextlib.suppress(asyncio.CancelledError):  # hivemind never forgets a call that was cancelled
                    await _tarpit.wait()
            raise ShutOut("refused too often; call again later")
        _caller.set(peer)  # each call is a task with a context of its own
        return await handler(request, peer)

    await _add_unary_handler(client, proto, heard, balanced)


async def stream_handler(
    client: ControlClient, proto: str, handler_cb: Callable[..., Awaitable[None]], balanced: bool = False
) -> None:
    """See upstream."""

    async def heard(stream: Any, reader: Any, writer: Any) -> None:
        if is_shut_out(stream.peer_id):
            await _tarpit.wait()
            writer.close()
            return
        _caller.set(stream.peer_id)
        await handler_cb(stream, reader, writer)

    await _stream_handler(client, proto, heard, balanced)
