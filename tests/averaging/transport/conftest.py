"""A loop in a thread with peers in it, and an end that leaves nothing behind."""

from collections.abc import Iterator

import pytest

from tests.averaging.transport.peers import Guarded, Peers
from tests.support.refusing_loop import refusing_loop


@pytest.fixture
def peers(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peers]:
    """Peers of one test; nobody has been refused before it, and no refusal is forgotten meanwhile."""
    with refusing_loop(monkeypatch, 1e9) as loop:
        them = Peers(loop, Guarded(tmp_path_factory.mktemp("passes")))
        try:
            yield them
        finally:
            them.stop()
