"""One swarm for a module of attacks; its text and tokenizer are those of the small swarms."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.access.guarded_swarm import GuardedSwarm
from tests.peers.conftest import corpus as corpus
from tests.peers.conftest import tokenizer_folder as tokenizer_folder


@pytest.fixture(scope="module")
def swarm(corpus: Path, tokenizer_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuardedSwarm]:
    """A coordinator and two trainers at work."""
    one = GuardedSwarm(tmp_path_factory.mktemp("guarded"), corpus, tokenizer_folder)
    try:
        one.start()
        yield one
    finally:
        one.kill_all()
