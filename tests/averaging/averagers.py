"""Averagers with a DHT node each, for tests of how they find each other."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import torch

from swarm.dht import Network, join_dht
from swarm.identity import load_identity
from trainer.averaging.groups import StepwiseAverager
from trainer.averaging.lines.caps import NO_CAPS, Caps

MATCHMAKING = 2.0  # seconds; both begin to look well within it


@contextlib.contextmanager
def averager(
    folder: Path, number: float, known: list[str], size: int = 10, own_caps: Caps = NO_CAPS
) -> Iterator[StepwiseAverager]:
    network = Network(initial_peers=known, listen=("/ip4/127.0.0.1/tcp/0",))
    dht = join_dht("groups", load_identity(folder / f"{number}.key"), network)
    one = StepwiseAverager(
        [torch.full((size,), float(number))],
        dht,
        prefix="groups",
        gate=None,
        heaviest=1.0,
        own_caps=own_caps,
        min_matchmaking_time=MATCHMAKING,
        request_timeout=MATCHMAKING / 2,
        next_chunk_timeout=5.0,
        allreduce_timeout=20.0,
        start=True,
    )
    try:
        yield one
    finally:
        one.shutdown()
        dht.shutdown()
