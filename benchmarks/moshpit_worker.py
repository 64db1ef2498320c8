"""One peer of `benchmarks.moshpit --real`: it averages numbers of its own in groups of one size after the other."""

import json
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import torch

from swarm.dht import Network, addresses, join_dht
from swarm.durable import write_file
from swarm.identity import load_identity
from swarm.run_file import AveragingSection
from trainer.averaging.groups import Group, StepwiseAverager
from trainer.averaging.moshpit.keys import rounds_to_mix
from trainer.averaging.moshpit.swarm_grid import SwarmGrid
from trainer.leaving import end_process

ELEMENTS = 100_000  # of a vector, in four bytes each
MATCHMAKING, REQUEST = 5.0, 2.0  # seconds
ROUND_TIMEOUT = 60.0  # seconds for all rounds of a global step
POLL = 0.05  # seconds
STAY = 3.0  # seconds after the last round, for those who are not done


@dataclass(frozen=True)
class Task:
    """What one peer is asked to do."""

    folder: str
    number: int
    peers: int  # a power of two
    repeats: int

    def file(self, name: str, number: int | None = None) -> Path:
        """A file of a peer."""
        return Path(self.folder) / f"{name}-{self.number if number is None else number}"


@dataclass(frozen=True)
class Averaged:
    """How one peer came out of a global step."""

    size: int  # of groups
    rounds: int
    seconds: float
    error: float  # mean squared distance from the mean of all, beside the one before the first round
    problem: str | None


def plan(peers: int) -> Iterator[tuple[int, int]]:
    """Sizes of groups from two to all, and numbers of rounds up to the one that a full grid needs."""
    for bits in range(1, peers.bit_length()):
        size = 2**bits
        for rounds in range(1, rounds_to_mix(peers.bit_length() - 1 - bits, size) + 1):
            yield size, rounds


def work(task: Task) -> None:
    """Average as the plan says, each time from the first numbers on."""
    first = task.file("address", 0)
    if task.number:
        _wait(first)
    network = Network(initial_peers=(first.read_text(),) if task.number else (), listen=("/ip4/127.0.0.1/tcp/0",))
    dht = join_dht("moshpit", load_identity(task.file("key")), network)
    if not task.number:
        write_file(first, addresses(dht)[0])
    averager = StepwiseAverager(
        [torch.zeros(ELEMENTS)],
        dht,
        prefix="moshpit",
        gate=None,
        heaviest=1.0,
        min_matchmaking_time=MATCHMAKING,
        request_timeout=REQUEST,
        next_chunk_timeout=10.0,
        sender_timeout=10.0,
        reducer_timeout=20.0,
        allreduce_timeout=ROUND_TIMEOUT,
        start=True,
    )
    write_file(task.file("id"), averager.peer_id.to_bytes())
    everybody = [_wait(task.file("id", number)).read_bytes() for number in range(task.peers)]
    found, step = [], 0
    for size, rounds in plan(task.peers):
        for _ in range(task.repeats):
            found.append(_one_step(task, averager, everybody, step, size, rounds))
            step += 1
    write_file(task.file("found"), json.dumps([asdict(one) for one in found]))
    time.sleep(STAY)
    end_process()


def _one_step(
    task: Task, averager: StepwiseAverager, everybody: list[bytes], step: int, size: int, rounds: int
) -> Averaged:
    numbers = [torch.randn(ELEMENTS, generator=torch.Generator().manual_seed(one)) for one in range(task.peers)]
    mean = torch.stack(numbers).mean(0)
    with averager.get_tensors() as (held,):
        held.copy_(numbers[task.number])
    task.file(f"begins-{step}").touch()
    for number in range(task.peers):
        _wait(task.file(f"begins-{step}", number))
    settings = AveragingSection(
        matchmaking_time=MATCHMAKING, request_timeout=REQUEST, target_group_size=size, rounds_per_step=rounds
    )
    grid = SwarmGrid(settings, averager.peer_id.to_bytes(), lambda _: everybody)
    search = partial(averager.step, wait=False, require_trigger=True, weight=1.0)
    began = time.monotonic()
    control = grid.schedule(averager, step, "numbers", search) or search(gather=step, timeout=ROUND_TIMEOUT)
    control.allow_allreduce()
    try:
        group = control.result(ROUND_TIMEOUT)
        assert isinstance(group, Group), "all averagers are stepwise"
        problem = group.problem
    except Exception as error:
        problem = str(error) or type(error).__name__
    seconds = time.monotonic() - began
    with averager.get_tensors() as (held,):
        distance = float((held - mean).square().mean() / (numbers[task.number] - mean).square().mean())
    return Averaged(size, rounds, round(seconds, 3), distance, problem)


def _wait(file: Path) -> Path:
    deadline = time.monotonic() + 2 * ROUND_TIMEOUT
    while not file.exists():
        if time.monotonic() > deadline:
            raise TimeoutError(f"another peer is late: there is no {file.name}")
        time.sleep(POLL)
    return file
