"""Throughput against network delay: the same blocks as a synchronous pipeline, and as a mixture of experts.

Two hosts of one thread each, in this process, and a network that delays each message. Four feed-forward blocks compute
forward and backward, and take their steps of Adam.

- *pipeline*: each host has two successive blocks. A batch is cut into micro-batches, which follow each other (GPipe,
  Huang et al. 2019); the next batch begins when all gradients are there. Data and loss are on the hosts, so that a
  micro-batch crosses the network twice.
- *dmoe*: each block has an expert on each host, and a row goes to one of them, so a row costs as many block passes. A
  trainer calls the experts of a layer, waits for the answers, goes on to the next layer, and back (`call_experts`);
  several trainers do so at the same time. The experts' backward pass computes the forward pass again. What trainers
  compute themselves is left out.

Source: Ryabinin and Gusev 2020, section 4.1. A batch has as many rows as one core computes in `BATCH_SECONDS`.
"""

import asyncio
import statistics
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import torch
from torch import Tensor

from experts.expert import Expert, new_expert
from experts.grid import Uid
from experts.layer.calling import call_experts
from experts.layer.gate import Choice
from experts.layer.local import vector_jacobian

WIDTH, HIDDEN, BLOCKS, HOSTS = 256, 1024, 4, 2
BATCH_SECONDS = 0.8  # of one core, for the forward and backward passes of all blocks
MICRO_BATCHES = 8
FORWARD_SHARE = 1 / 4  # of a row's work; backward the outputs are computed again, and two gradients
T = TypeVar("T")


class Block:
    """A block with its optimizer."""

    def __init__(self, seed: int):
        self.expert: Expert = new_expert(WIDTH, HIDDEN, seed)
        self._optimizer = torch.optim.Adam(self.expert.parameters(), lr=1e-4, fused=True)

    def forward(self, rows: Tensor) -> Tensor:
        """Outputs alone."""
        with torch.no_grad():
            return self.expert(rows)

    def backward(self, rows: Tensor, gradients: Tensor) -> Tensor:
        """Gradients of the rows, and a step."""
        of_rows, of_parameters = vector_jacobian(self.expert, rows, gradients)
        for parameter, gradient in zip(self.expert.parameters(), of_parameters, strict=True):
            parameter.grad = gradient
        self.step()
        return of_rows

    def step(self) -> None:
        """Apply the gradients that are there."""
        self._optimizer.step()
        self._optimizer.zero_grad()


class Hosts:
    """Two hosts, one thread each, that count the work they have done: rows through a block, forward and backward."""

    def __init__(self) -> None:
        self._threads = [ThreadPoolExecutor(1) for _ in range(HOSTS)]
        self._lock, self.rows = threading.Lock(), 0.0

    def submit(self, host: int, work: Callable[[], T]) -> "Future[T]":
        """Let a host compute."""
        return self._threads[host].submit(work)

    def count(self, rows: int, share: float) -> None:
        """So many rows have so much of their way through a block behind them."""
        with self._lock:
            self.rows += rows * share

    def close(self) -> None:
        """End the threads."""
        for thread in self._threads:
            thread.shutdown()


class DelayedExperts:
    """Reaches the experts (block, host) of two hosts, over lines on which a message takes so many seconds."""

    def __init__(self, hosts: Hosts, delay: float):
        self._hosts, self._delay = hosts, delay
        self._blocks: dict[Uid, Block] = {
            (block, host): Block(HOSTS * block + host) for block in range(BLOCKS) for host in range(HOSTS)
        }

    def alive(self) -> Collection[Uid]:
        """All."""
        return self._blocks.keys()

    def forward(self, inputs: Mapping[Uid, Tensor]) -> dict[Uid, Tensor]:
        """Outputs of all."""
        return self._answers({uid: partial(self._forward, uid, rows) for uid, rows in inputs.items()})

    def backward(self, inputs: Mapping[Uid, Tensor], gradients: Mapping[Uid, Tensor]) -> dict[Uid, Tensor]:
        """Gradients of all."""
        return self._answers({uid: partial(self._backward, uid, rows, gradients[uid]) for uid, rows in inputs.items()})

    def _forward(self, uid: Uid, rows: Tensor) -> Tensor:
        outputs = self._blocks[uid].forward(rows)
        self._hosts.count(len(rows), FORWARD_SHARE)
        return outputs

    def _backward(self, uid: Uid, rows: Tensor, gradients: Tensor) -> Tensor:
        of_rows = self._blocks[uid].backward(rows, gradients)
        self._hosts.count(len(rows), 1 - FORWARD_SHARE)
        return of_rows

    def _answers(self, work: Mapping[Uid, Callable[[], Tensor]]) -> dict[Uid, Tensor]:
        time.sleep(self._delay)
        answers = {uid: self._hosts.submit(uid[1], one) for uid, one in work.items()}
        found = {uid: answer.result() for uid, answer in answers.items()}
        time.sleep(self._delay)
        return found


@dataclass(frozen=True)
class Throughput:
    """Batches a second, by delay in milliseconds."""

    rows: int  # of a batch
    pipeline: dict[int, float]
    dmoe: dict[int, dict[int, float]]  # by trainers in flight


def measure(delays: Sequence[int], trainers: Sequence[int], seconds: float, turns: int) -> Throughput:
    """Measure all in turns; medians count.

    Args:
        delays: of one message, in milliseconds.
        trainers: how many are in flight.
        seconds: of each measurement, after its beginning.
    """
    torch.set_num_threads(1)
    rows = rows_of_a_batch()
    pipeline: dict[int, list[float]] = {delay: [] for delay in delays}
    dmoe: dict[int, dict[int, list[float]]] = {count: {delay: [] for delay in delays} for count in trainers}
    for _ in range(turns):
        for delay in delays:
            pipeline[delay].append(measure_pipeline(delay / 1000, rows, seconds))
            for count in trainers:
                dmoe[count][delay].append(measure_dmoe(delay / 1000, rows, count, seconds))
    return Throughput(rows, _medians(pipeline), {count: _medians(by_delay) for count, by_delay in dmoe.items()})


def _medians(by_delay: Mapping[int, Sequence[float]]) -> dict[int, float]:
    return {delay: statistics.median(each) for delay, each in by_delay.items()}


def rows_of_a_batch() -> int:
    """As many as all blocks take forward and backward in `BATCH_SECONDS` of processor time."""
    block, rows = Block(0), torch.randn(512, WIDTH)
    seconds = []
    for _ in range(20):
        began = time.thread_time()
        block.forward(rows)
        block.backward(rows, rows)
        seconds.append((time.thread_time() - began) / len(rows) * BLOCKS)
    return max(1, round(BATCH_SECONDS / statistics.median(seconds) / MICRO_BATCHES)) * MICRO_BATCHES


def measure_dmoe(delay: float, rows: int, trainers: int, seconds: float) -> float:
    """Batches a second with so many trainers in flight, after each has had its first one."""
    hosts = Hosts()
    caller, ended = DelayedExperts(hosts, delay), threading.Event()
    begun = threading.Semaphore(0)

    def train(seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        step(caller, rows, generator)
        begun.release()
        while not ended.is_set():
            step(caller, rows, generator)

    threads = [threading.Thread(target=train, args=(seed,), daemon=True) for seed in range(trainers)]
    for thread in threads:
        thread.start()
    for _ in threads:
        begun.acquire()
    began, before = time.perf_counter(), hosts.rows
    time.sleep(max(seconds, 2 * _round_trips(delay)))
    done = (hosts.rows - before) / (time.perf_counter() - began)
    ended.set()
    for thread in threads:
        thread.join()
    hosts.close()
    return done / (rows * BLOCKS)


def _round_trips(delay: float) -> float:
    """Seconds that a trainer's batch waits for the network."""
    return 2 * BLOCKS * 2 * delay


def step(caller: DelayedExperts, rows: int, generator: torch.Generator) -> None:
    """One batch of a trainer: forward through all layers, and back."""
    hidden = torch.randn(rows, WIDTH, generator=generator, requires_grad=True)
    for block in range(BLOCKS):
        host = torch.randint(HOSTS, (rows, 1), generator=generator)
        chosen = torch.stack([torch.full_like(host, block), host], dim=2)
        outputs, _ = call_experts(caller, hidden, Choice(chosen, ()))
        hidden = hidden + outputs.squeeze(1)
    hidden.square().mean().backward()


def measure_pipeline(delay: float, rows: int, seconds: float) -> float:
    """Batches a second of the pipeline, after its first one."""
    hosts = Hosts()
    pipeline = Pipeline(hosts, delay)
    pipeline.step(rows)
    began, batches = time.perf_counter(), 0
    while (spent := time.perf_counter() - began) < seconds:
        pipeline.step(rows)
        batches += 1
    hosts.close()
    return batches / spent


class Pipeline:
    """Blocks in a row, half of them on each host."""

    def __init__(self, hosts: Hosts, delay: float):
        self._hosts, self._delay = hosts, delay
        blocks = [Block(seed) for seed in range(BLOCKS)]
        half = BLOCKS // HOSTS
        self._stages = [blocks[:half], blocks[half:]]

    def step(self, rows: int) -> None:
        """One batch, and the step of all blocks."""
        asyncio.run(self._step(torch.randn(rows, WIDTH)))

    async def _step(self, batch: Tensor) -> None:
        await asyncio.gather(*(self._micro_batch(part) for part in batch.chunk(MICRO_BATCHES)))
        await asyncio.gather(*(self._on(host, partial(self._apply, host)) for host in range(HOSTS)))

    async def _micro_batch(self, rows: Tensor) -> None:
        first = await self._on(0, lambda: self._forward(0, rows))
        await asyncio.sleep(self._delay)
        of_second = await self._on(1, lambda: self._forward_and_backward(first.detach()))
        await asyncio.sleep(self._delay)
        await self._on(0, lambda: first.backward(of_second))

    async def _on(self, host: int, work: Callable[[], T]) -> T:
        return await asyncio.wrap_future(self._hosts.submit(host, work))

    def _forward(self, stage: int, rows: Tensor) -> Tensor:
        for block in self._stages[stage]:
            rows = rows + block.expert(rows)
        return rows

    def _forward_and_backward(self, rows: Tensor) -> Tensor:
        rows.requires_grad_()
        self._forward(1, rows).square().mean().backward()
        assert rows.grad is not None
        return rows.grad

    def _apply(self, host: int) -> None:
        for block in self._stages[host]:
            block.step()
