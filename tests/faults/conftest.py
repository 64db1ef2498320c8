"""The small swarm of tests/peers, whose processes can be held at a place."""

from tests.peers.conftest import corpus, small_swarm, tokenizer_folder

__all__ = ["corpus", "small_swarm", "tokenizer_folder"]
