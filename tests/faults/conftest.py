"""The small swarm of tests/peers, whose processes can be held at a place."""

from tests.peers.conftest import corpus, tokenizer_folder

__all__ = ["corpus", "tokenizer_folder"]
