"""Throughput against network delay: the same blocks as a synchronous pipeline, and as a mixture of experts.

Two hosts, in this process, and a network that delays each message. How fast hosts compute is made up: they sleep, one
call after the other, so the figures do not depend on what else the machine does. A batch goes through four blocks,
forward and backward, and all of them together take `BATCH_SECONDS` of one host.

- *pipeline*: each host has two successive blocks. A batch is cut into micro-batches, which follow each other (GPipe,
  Huang et al. 2019); the next batch begins when all gradients are there. Data and loss are on the hosts, so that a
  micro-batch crosses the network twice. Activations are kept, so nothing is computed twice.
- *dmoe*: each block has an expert on each host, and a row goes to one of them, so a row costs as many block passes. A
  trainer calls the experts of a layer, waits for the answers, goes on to the next layer, and back (`call_experts`);
  several trainers do so at the same time. The experts' backward pass computes the forward pass again. What trainers
  compute themselves is left out.

Source: Ryabinin and Gusev 2020, section 4.1.
"""

import asyncio
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from experts.grid import Uid
from experts.layer.calling import call_experts
from experts.layer.gate import Choice

BLOCKS, HOSTS = 4, 2
ROWS, WIDTH = 256, 8  # of a batch; there is nothing to compute in them
MICRO_BATCHES = 8
BATCH_SECONDS = 0.8  # that one host needs for a batch: forward, forward again, and twice that backward
FORWARD = BATCH_SECONDS / BLOCKS / ROWS / 4  # seconds of a row through a block
BACKWARD = 2 * FORWARD


class Hosts:
    """Two hosts, each of which does one thing after the other, and the work that they have done."""

    def __init__(self) -> None:
        self._threads = [ThreadPoolExecutor(1) for _ in range(HOSTS)]
        self._lock, self.worked = threading.Lock(), 0.0  # seconds, of both together

    def compute(self, host: int, seconds: float) -> "Future[None]":
        """Let a host compute for so long."""
        return self._threads[host].submit(self._compute, seconds)

    def _compute(self, seconds: float) -> None:
        time.sleep(seconds)
        with self._lock:
            self.worked += seconds

    def close(self) -> None:
        """End the threads."""
        for thread in self._threads:
            thread.shutdown()


class DelayedExperts:
    """Reaches the experts (block, host) of two hosts, over lines on which a message takes so many seconds."""

    def __init__(self, hosts: Hosts, delay: float):
        self._hosts, self._delay = hosts, delay

    def alive(self) -> Collection[Uid]:
        """All."""
        return [(block, host) for block in range(BLOCKS) for host in range(HOSTS)]

    def forward(self, inputs: Mapping[Uid, Tensor]) -> dict[Uid, Tensor]:
        """What was sent."""
        self._wait_for({uid: len(rows) * FORWARD for uid, rows in inputs.items()})
        return dict(inputs)

    def backward(self, inputs: Mapping[Uid, Tensor], gradients: Mapping[Uid, Tensor]) -> dict[Uid, Tensor]:
        """What was sent."""
        self._wait_for({uid: len(rows) * (FORWARD + BACKWARD) for uid, rows in inputs.items()})
        return dict(gradients)

    def _wait_for(self, work: Mapping[Uid, float]) -> None:
        time.sleep(self._delay)
        for done in [self._hosts.compute(uid[1], seconds) for uid, seconds in work.items()]:
            done.result()
        time.sleep(self._delay)


@dataclass(frozen=True)
class Throughput:
    """Batches a second, by delay in milliseconds."""

    pipeline: dict[int, float]
    dmoe: dict[int, dict[int, float]]  # by trainers in flight


def measure(delays: Sequence[int], trainers: Sequence[int], seconds: float, see: Callable[[str], None]) -> Throughput:
    """Measure all, one after the other.

    Args:
        delays: of one message, in milliseconds.
        trainers: how many are in flight.
        seconds: of each measurement, after its beginning.
    """

    def by_delay(name: str, one: Callable[[float], float]) -> dict[int, float]:
        found = {delay: one(delay / 1000) for delay in delays}
        see(f"{name}: " + ", ".join(f"{speed:.2f} at {delay} ms" for delay, speed in found.items()))
        return found

    pipeline = by_delay("pipeline", lambda delay: measure_pipeline(delay, seconds))
    dmoe = {
        count: by_delay(f"DMoE, {count} in flight", partial(measure_dmoe, trainers=count, seconds=seconds))
        for count in trainers
    }
    return Throughput(pipeline, dmoe)


def measure_dmoe(delay: float, trainers: int, seconds: float) -> float:
    """Batches a second with so many trainers in flight, after each has had its first one."""
    hosts = Hosts()
    caller, ended, begun = DelayedExperts(hosts, delay), threading.Event(), threading.Semaphore(0)

    def train(seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        step(caller, generator)
        begun.release()
        while not ended.is_set():
            step(caller, generator)

    threads = [threading.Thread(target=train, args=(seed,), daemon=True) for seed in range(trainers)]
    for thread in threads:
        thread.start()
    for _ in threads:
        begun.acquire()
    began, before = time.perf_counter(), hosts.worked
    time.sleep(seconds + 2 * BLOCKS * 2 * delay)  # with few trainers, several of their round trips
    speed = (hosts.worked - before) / (time.perf_counter() - began) / BATCH_SECONDS
    ended.set()
    for thread in threads:
        thread.join()
    hosts.close()
    return speed


def step(caller: DelayedExperts, generator: torch.Generator) -> None:
    """One batch of a trainer: forward through all layers, and back."""
    hidden = torch.randn(ROWS, WIDTH, generator=generator, requires_grad=True)
    for block in range(BLOCKS):
        host = torch.randint(HOSTS, (ROWS, 1), generator=generator)
        chosen = torch.stack([torch.full_like(host, block), host], dim=2)
        outputs, _ = call_experts(caller, hidden, Choice(chosen, ()))
        hidden = hidden + outputs.squeeze(1)
    hidden.mean().backward()


def measure_pipeline(delay: float, seconds: float) -> float:
    """Batches a second of the pipeline."""
    hosts = Hosts()
    began, batches = time.perf_counter(), 0
    while (spent := time.perf_counter() - began) < seconds:
        asyncio.run(pipeline_step(hosts, delay))
        batches += 1
    hosts.close()
    return batches / spent


async def pipeline_step(hosts: Hosts, delay: float) -> None:
    """One batch: all micro-batches forward on the first host, forward and back on the second, back on the first."""
    rows = ROWS // MICRO_BATCHES * BLOCKS // HOSTS  # times blocks, of a micro-batch on one host

    async def micro_batch() -> None:
        await asyncio.wrap_future(hosts.compute(0, rows * FORWARD))
        await asyncio.sleep(delay)
        await asyncio.wrap_future(hosts.compute(1, rows * (FORWARD + BACKWARD)))
        await asyncio.sleep(delay)
        await asyncio.wrap_future(hosts.compute(0, rows * BACKWARD))

    await asyncio.gather(*(micro_batch() for _ in range(MICRO_BATCHES)))
