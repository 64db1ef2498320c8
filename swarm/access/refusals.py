"""Counts refusals, and blocks peers that were refused too often for a while.

Refusing a call costs a millisecond or two, because it is parsed and signatures are checked: a peer without a pass that
calls on and on would take a share of every other peer's processor. libp2p says who calls, so no peer can have another
one blocked. Each process of a peer counts for itself; `hivemind_patches.blocked_callers` asks before a call is parsed.
"""

from contextvars import ContextVar

from hivemind.p2p import PeerID

from swarm.rate_limit import RateLimit

MOST_REFUSALS = 20  # within WINDOW; a laptop that wakes up with an old pass calls a few times before it has a new one
WINDOW = 20.0  # seconds

_refusals = RateLimit(MOST_REFUSALS, WINDOW)
_caller: ContextVar[PeerID | None] = ContextVar("caller", default=None)


class NoRoom(Exception):
    """There are too many streams, which is not this peer's fault: it is not counted."""


def caller() -> PeerID | None:
    """The peer whose call is being answered, as libp2p says; None outside of such a call."""
    return _caller.get()


def set_caller(peer: PeerID) -> None:
    """Say whose call the current task answers."""
    _caller.set(peer)


def count_refusal(peer: PeerID | None = None) -> None:
    """Count that something of this peer was refused; by default of the peer whose call is being answered."""
    refused = peer or caller()
    if refused is not None:
        _refusals.attempt(refused.to_base58())


def is_blocked(peer: PeerID) -> bool:
    """Whether calls of this peer are to be dropped unread."""
    return _refusals.is_reached(peer.to_base58())
