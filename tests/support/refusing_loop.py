"""A loop in a thread whose streams are refused to callers that were refused too often, as in a peer's process."""

import contextlib
from collections.abc import Iterator

import pytest
from hivemind.p2p.p2p_daemon_bindings.control import ControlClient

from averaging.transport.loop import LoopThread
from swarm.access import refusals
from swarm.hivemind_patches.blocked_callers import block_refused_callers
from swarm.rate_limit import RateLimit


@contextlib.contextmanager
def refusing_loop(monkeypatch: pytest.MonkeyPatch, window: float) -> Iterator[LoopThread]:
    """A loop of one test; nobody has been refused before it, and a refusal counts for `window` seconds."""
    monkeypatch.setattr(refusals, "_refusals", RateLimit(refusals.MOST_REFUSALS, window))
    for name in ("add_unary_handler", "stream_handler"):
        monkeypatch.setattr(ControlClient, name, getattr(ControlClient, name))  # put back afterwards
    block_refused_callers()
    loop = LoopThread("streams-test")
    try:
        yield loop
    finally:
        assert loop.stop()
