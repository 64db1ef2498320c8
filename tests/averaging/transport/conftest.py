"""A loop in a thread with peers in it, and an end that leaves nothing behind."""

from collections.abc import Iterator

import pytest
from hivemind.p2p.p2p_daemon_bindings.control import ControlClient

from averaging.transport.loop import LoopThread
from swarm.access import refusals
from swarm.hivemind_patches.blocked_callers import block_refused_callers
from swarm.rate_limit import RateLimit
from tests.averaging.transport.peers import Guarded, Peers


@pytest.fixture
def peers(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peers]:
    """Peers of one test; nobody has been refused before it."""
    monkeypatch.setattr(refusals, "_refusals", RateLimit(refusals.MOST_REFUSALS, refusals.WINDOW))
    for name in ("add_unary_handler", "stream_handler"):
        monkeypatch.setattr(ControlClient, name, getattr(ControlClient, name))  # put back afterwards
    block_refused_callers()
    loop = LoopThread("transport-test")
    loop.start()
    them = Peers(loop, Guarded(tmp_path_factory.mktemp("passes")))
    try:
        yield them
    finally:
        try:
            them.stop()
        finally:
            assert loop.stop()
