"""Real averagers on a grid, all in one process that is forked for them."""

import contextlib
import os
import signal
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import torch
from hivemind.averaging.group_info import GroupInfo

from swarm.dht import Network, addresses, join_dht
from swarm.identity import load_identity
from swarm.run_file import AveragingSection
from trainer.averaging.groups import Group, StepwiseAverager
from trainer.averaging.swarm_grid import SwarmGrid

SETTINGS = AveragingSection(
    matchmaking_time=5.0, request_timeout=2.0, averaging_timeout=60.0, chunk_timeout=5.0, target_group_size=2
)


def start_averagers(folder: Path, count: int, stack: contextlib.ExitStack) -> list[StepwiseAverager]:
    """So many; each has its number. They end with the stack."""
    averagers: list[StepwiseAverager] = []
    for number in range(count):
        known = addresses(averagers[0].dht) if averagers else []
        network = Network(initial_peers=known, listen=("/ip4/127.0.0.1/tcp/0",), client_mode=number == 1)
        dht = join_dht("grid", load_identity(folder / f"{number}.key"), network)
        stack.callback(dht.shutdown)
        averager = StepwiseAverager(
            [torch.full((10,), float(number))],
            dht,
            prefix="grid",
            gate=None,
            heaviest=100.0,
            min_matchmaking_time=SETTINGS.matchmaking_time,
            request_timeout=SETTINGS.request_timeout,
            next_chunk_timeout=SETTINGS.chunk_timeout,
            sender_timeout=SETTINGS.chunk_timeout,
            reducer_timeout=2 * SETTINGS.chunk_timeout,
            allreduce_timeout=20.0,
            client_mode=dht.client_mode,
            start=True,
        )
        stack.callback(averager.shutdown)
        averagers.append(averager)
    return averagers


def one_step(averagers: Sequence[StepwiseAverager], weights: Sequence[float], step: int = 0) -> list[Group]:
    """All average in a global step, with these weights; what each has come to."""
    ids = [one.peer_id.to_bytes() for one in averagers]
    controls = []
    for averager, weight in zip(averagers, weights, strict=True):
        grid = SwarmGrid(SETTINGS, averager.peer_id.to_bytes(), lambda _: ids)
        search = partial(averager.step, wait=False, require_trigger=True)
        control = grid.schedule(averager, step, "test", search, quorum=True)
        assert control is not None, "there are enough for a grid"
        control.weight = weight
        control.allow_allreduce()
        controls.append(control)
    with ThreadPoolExecutor(len(controls)) as threads:
        return list(threads.map(lambda control: control.result(SETTINGS.averaging_timeout), controls))


def values(averagers: Sequence[StepwiseAverager]) -> torch.Tensor:
    """What the averagers hold; [averager, element]."""
    held = []
    for averager in averagers:
        with averager.get_tensors() as (mean,):
            held.append(mean.clone())
    return torch.stack(held)


class Dying(StepwiseAverager):
    """Averagers of which one is killed in the middle of its second round."""

    victim: bytes

    async def _average_within(self, kept: GroupInfo, **kwargs: Any) -> Group:
        cell = self._matchmaking.group_key_manager.cell
        if self.peer_id.to_bytes() == self.victim and cell.round == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        return await super()._average_within(kept, **kwargs)
