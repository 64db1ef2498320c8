"""Averagers of parameters with a DHT node each, with and without passes."""

import contextlib
from collections.abc import Iterator
from typing import Any

import torch

from swarm.dht import Network, join_dht
from swarm.gate import Gate
from swarm.identity import Identity
from trainer.averaging.copies import REACH
from trainer.averaging.groups import StepwiseAverager
from trainer.averaging.lines.measured import OwnLine
from trainer.averaging.state import SwarmStateAverager

RUN = "states"
RATE, DECAY = 1e-3, 0.1
SHAPES = (3, 2**15), (100,)  # of the parameters; with three members each reduces a part of the large one


def adam(groups: list[dict[str, Any]], **settings: Any) -> torch.optim.Optimizer:
    return torch.optim.AdamW(groups, lr=RATE, weight_decay=DECAY, **settings)


@contextlib.contextmanager
def state_averager(
    identity: Identity, known: list[str], gate: Gate | None = None, **settings: Any
) -> Iterator[SwarmStateAverager]:
    """`settings` are those of its optimizer."""
    network = Network(initial_peers=known, listen=("/ip4/127.0.0.1/tcp/0",))
    dht = join_dht(RUN, identity, network, gate)
    one = SwarmStateAverager(
        dht=dht,
        prefix=f"{RUN}_state_averager",
        optimizer=lambda groups: adam(groups, **settings),
        params=[{"params": [torch.nn.Parameter(torch.zeros(shape)) for shape in SHAPES]}],
        learning_rate=lambda step: RATE,
        reach=REACH,
        offload_optimizer=True,
        custom_gradients=True,
        initialize_optimizer=True,
        own_line=OwnLine(),
        gate=gate,
        min_matchmaking_time=2.0,
        request_timeout=1.0,
        next_chunk_timeout=10.0,
        allreduce_timeout=60.0,
        shutdown_timeout=5.0,
        start=True,
    )
    try:
        yield one
    finally:
        one.shutdown()
        dht.shutdown()


def begin_at(averager: SwarmStateAverager, step: int, parameters: list[torch.Tensor]) -> None:
    """Have these parameters after so many global steps, the last of which was an optimizer step."""
    held = averager._held()[: len(SHAPES)]
    with torch.no_grad():
        for own, value in zip(held, parameters, strict=True):
            own.copy_(value)
            own.grad = torch.ones_like(own)
    averager.optimizer.step()
    with torch.no_grad():
        for own, value in zip(held, parameters, strict=True):
            own.copy_(value)
    averager.local_epoch = step
    averager.state_sharing_priority = step


def parameters_in(averager: SwarmStateAverager) -> list[torch.Tensor]:
    return [one.detach().clone() for one in averager._held()[: len(SHAPES)]]


def average(averagers: list[SwarmStateAverager], weights: list[float]) -> list[Any]:
    """One round of all, each with a weight that it gives itself; returns the groups."""
    rounds = [
        StepwiseAverager.step(one, gather=one.local_epoch, weight=weight, wait=False, timeout=60.0, allow_retries=False)
        for one, weight in zip(averagers, weights, strict=True)
    ]
    return [one.result(60.0) for one in rounds]
