"""Hosts and callers in one process, each with a libp2p daemon of its own; and an end that leaves nothing behind."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from experts.remote import remote_experts
from tests.experts.remote.small_hosts import SmallHosts
from tests.support.refusing_loop import refusing_loop


@pytest.fixture
def hosts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SmallHosts]:
    """Those of one test; nobody has been refused before it, and no refusal is forgotten meanwhile.

    An answer that takes a while, because this machine is busy, is not late.
    """
    monkeypatch.setattr(remote_experts, "AT_LEAST", 60.0)
    with refusing_loop(monkeypatch, 1e9) as loop:
        them = SmallHosts(loop, tmp_path)
        try:
            yield them
        finally:
            them.stop()
