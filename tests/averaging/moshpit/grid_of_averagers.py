"""Real averagers on a grid, all of one process that is forked for them."""

import asyncio
import contextlib
import math
import os
import signal
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, Literal

import torch
from hivemind.averaging.group_info import GroupInfo

from swarm.dht import Network, addresses, join_dht
from swarm.identity import load_identity
from swarm.run_file import AveragingSection
from trainer.averaging.groups import Group, StepwiseAverager
from trainer.averaging.moshpit.rounds import GridControl
from trainer.averaging.moshpit.swarm_grid import SwarmGrid

SETTINGS = AveragingSection(
    matchmaking_time=5.0, request_timeout=2.0, averaging_timeout=60.0, chunk_timeout=3.0, target_group_size=2
)
ELEMENTS = 10
CLIENT = 1  # the number of the one in client mode
Fault = Literal["dies", "hangs"]


class Faulty(StepwiseAverager):
    """An averager that dies in the middle of its second round, or falls silent there."""

    def __init__(self, *args: Any, fault: Fault | None, **kwargs: Any):
        self.fault = fault
        super().__init__(*args, **kwargs)

    async def _average_within(self, kept: GroupInfo, **kwargs: Any) -> Group:
        cell = self._matchmaking.group_key_manager.cell
        if cell.round == 1 and self.fault == "dies":
            os.kill(os.getpid(), signal.SIGKILL)
        if cell.round == 1 and self.fault == "hangs":
            await asyncio.sleep(math.inf)
        return await super()._average_within(kept, **kwargs)


def start_averagers(
    folder: Path, count: int, stack: contextlib.ExitStack, fault: Fault | None = None
) -> list[StepwiseAverager]:
    """So many; each holds its number. They end with the stack. `fault`: of the last one."""
    averagers: list[StepwiseAverager] = []
    known: list[str] = []
    for number in range(count):
        network = Network(initial_peers=known, listen=("/ip4/127.0.0.1/tcp/0",), client_mode=number == CLIENT)
        dht = join_dht("grid", load_identity(folder / f"{number}.key"), network)
        stack.callback(dht.shutdown)
        known = known or addresses(dht)
        averager = Faulty(
            [torch.full((ELEMENTS,), float(number))],
            dht,
            fault=fault if number == count - 1 else None,
            prefix="grid",
            gate=None,
            heaviest=100.0,
            min_matchmaking_time=SETTINGS.matchmaking_time,
            request_timeout=SETTINGS.request_timeout,
            next_chunk_timeout=SETTINGS.chunk_timeout,
            sender_timeout=SETTINGS.chunk_timeout,
            reducer_timeout=2 * SETTINGS.chunk_timeout,
            allreduce_timeout=SETTINGS.averaging_timeout,
            client_mode=dht.client_mode,
            start=True,
        )
        if number == count - 1 and fault is not None:
            stack.callback(averager.kill)  # it may not hear that it shall end
        else:
            stack.callback(averager.shutdown)
        averagers.append(averager)
    return averagers


def one_step(
    averagers: Sequence[StepwiseAverager], weights: Sequence[float], step: int = 0, faulty: int = 0
) -> list[tuple[Group, float]]:
    """All average in a global step, with these weights.

    Returns what each but the last `faulty` came to, and after how many seconds.
    """
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
    began = time.monotonic()

    def wait(control: GridControl) -> tuple[Group, float]:
        return control.result(SETTINGS.averaging_timeout), time.monotonic() - began

    with ThreadPoolExecutor(len(controls)) as threads:
        ends = [threads.submit(wait, control) for control in controls]
        healthy = [end.result() for end in ends[: len(ends) - faulty]]
        for control in controls[len(ends) - faulty :]:
            control.cancel()  # the others have not waited for it
    return healthy


def values(averagers: Sequence[StepwiseAverager]) -> torch.Tensor:
    """What the averagers hold; [averager, element]."""
    held = []
    for averager in averagers:
        with averager.get_tensors() as (mean,):
            held.append(mean.clone())
    return torch.stack(held)
