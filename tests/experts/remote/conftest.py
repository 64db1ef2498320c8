"""Hosts and callers in one process, each with a libp2p daemon of its own; and an end that leaves nothing behind."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from hivemind.p2p.p2p_daemon_bindings.control import ControlClient

from averaging.transport.loop import LoopThread
from swarm.access import refusals
from swarm.hivemind_patches.blocked_callers import block_refused_callers
from swarm.rate_limit import RateLimit
from tests.experts.remote.small_hosts import SmallHosts


@pytest.fixture
def hosts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SmallHosts]:
    """Those of one test; nobody has been refused before it, and no refusal is forgotten meanwhile."""
    monkeypatch.setattr(refusals, "_refusals", RateLimit(refusals.MOST_REFUSALS, window=1e9))
    for name in ("add_unary_handler", "stream_handler"):
        monkeypatch.setattr(ControlClient, name, getattr(ControlClient, name))  # put back afterwards
    block_refused_callers()
    loop = LoopThread("experts-test")
    loop.start()
    them = SmallHosts(loop, tmp_path)
    try:
        yield them
    finally:
        try:
            them.stop()
        finally:
            assert loop.stop()
