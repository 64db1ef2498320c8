"""One trainer of `benchmarks.swarm`: alone with its own optimizer, or in a swarm; writes what it measured."""

import argparse
import base64
import json
import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

from averaging.optimizers.lamb import Lamb
from swarm.durable import write_file
from swarm.gate import Gate
from swarm.identity import Identity
from swarm.program import program_version
from swarm.run_file import RunFile, load_run
from tokenizer.documents import open_documents
from tokenizer.loading import load_tokenizer
from trainer.averaging import SwarmOptimizer, make_optimizer
from trainer.data import Feed
from trainer.leaving import end_helpers
from trainer.model import PretrainingModel, build_model, parameter_groups
from trainer.precision import Precision

MICRO_BATCH = 16
WARM_UP_STEPS = 2  # global steps before the clock starts: matchmaking has learned everybody's speed by then


@dataclass(frozen=True)
class Measured:
    """Samples computed in the window, and how rounds of averaging went."""

    samples: int
    seconds: float
    share: float  # of the time in which gradients were computed on a processor; averaging and helpers take the rest
    steps: int  # global steps since the beginning
    steps_in_window: int
    round_seconds: list[float]
    failures: int


def read_measured(path: Path) -> Measured:
    """What a worker has written."""
    return Measured(**json.loads(path.read_text()))


def main() -> None:
    """Warm up, compute for so many seconds, write the figures."""
    parser = argparse.ArgumentParser()
    parser.add_argument("run", type=Path)
    parser.add_argument("output", type=Path)
    parser.add_argument("--number", type=int, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--initial-peer")
    parser.add_argument("--url", help="of the coordinator, where it gives passes")
    options = parser.parse_args()
    run = load_run(options.run)
    tokenizer = load_tokenizer(run)
    model = build_model(run, tokenizer)
    swarm = _join(run, model, options.initial_peer, options.url) if options.initial_peer else None
    hand_over = swarm.step if swarm else _local_steps(run, model)
    documents = open_documents(run, run.data.train, seed=options.number, repeat=True)
    with Feed(documents, tokenizer, run, batch_size=MICRO_BATCH, seed=options.number) as feed:
        measured = _measure(model, feed, hand_over, swarm, options.seconds)
    write_file(options.output, json.dumps(asdict(measured)))
    end_helpers()
    os._exit(0)  # the averagers are killed: nothing is left to close in order


def _measure(
    model: PretrainingModel,
    feed: Feed,
    hand_over: Callable[[int], None],
    swarm: SwarmOptimizer | None,
    seconds: float,
) -> Measured:
    precision = Precision(torch.device("cpu"), torch.bfloat16)
    rounds: list[float] = []
    failures, samples, first_step = 0, 0, 0
    warm_until = time.monotonic() + 5.0
    began: float | None = None
    computed = 0.0
    while began is None or time.monotonic() < began + seconds:
        turned_to_it = time.thread_time()
        batch = feed.next()
        model.zero_grad(set_to_none=True)
        with precision.autocast():
            loss = model(batch).loss
        loss.backward()
        computed += time.thread_time() - turned_to_it
        hand_over(batch.samples)
        samples += batch.samples
        for report in swarm.ended_rounds() if swarm else ():
            failures += report.problem is not None
            if began is not None and report.problem is None:
                rounds.append(report.seconds)
        warm = swarm.local_epoch >= WARM_UP_STEPS if swarm else time.monotonic() > warm_until
        if began is None and warm:
            began, samples, first_step = time.monotonic(), 0, swarm.local_epoch if swarm else 0
            computed = 0.0
    steps = swarm.local_epoch if swarm else 0
    took = time.monotonic() - began
    return Measured(samples, took, computed / took, steps, steps - first_step, rounds, failures)


def _join(run: RunFile, model: PretrainingModel, address: str, url: str | None) -> SwarmOptimizer:
    from swarm.dht import Network, join_dht
    from swarm.identity import load_identity

    folder = Path(tempfile.mkdtemp())
    identity = load_identity(folder / "identity.key")
    gate = _gate(run, url, folder, identity) if url else None
    network = Network(initial_peers=(address,), listen=("/ip4/127.0.0.1/tcp/0",))
    dht = join_dht(run.name, identity, network, gate)
    optimizer = make_optimizer(run, dht, identity, parameter_groups(model, run.optimizer.weight_decay), gate=gate)
    optimizer.load_state_from_peers()
    return optimizer


def _gate(run: RunFile, url: str, folder: Path, identity: Identity) -> Gate:
    from app.joining.door import Door
    from swarm.joining import JoinRequest
    from swarm.passes import read_pass

    request = JoinRequest(
        public_key=base64.b64encode(identity.private_key.get_public_key().to_bytes()),
        peer_id=str(identity.peer_id),
        version=program_version(),
        name=f"worker {os.getpid()}",
    )
    with Door(url) as door:
        answer = door.join(request, None)
    return Gate(folder, run.name, answer.authority, read_pass(answer.pass_), answer.notices)


def _local_steps(run: RunFile, model: PretrainingModel) -> Callable[[int], None]:
    """The same optimizer without peers: gradients add up to the target batch, then a LAMB step."""
    optimizer = Lamb(run.optimizer, parameter_groups(model, run.optimizer.weight_decay))
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    sums = [torch.zeros_like(parameter) for parameter in parameters]
    gathered = [0, 0]  # samples, batches

    @torch.no_grad()
    def hand_over(samples: int) -> None:
        torch._foreach_add_(sums, [parameter.grad for parameter in parameters])
        gathered[0] += samples
        gathered[1] += 1
        if gathered[0] >= run.averaging.target_batch_size:
            for parameter, total in zip(parameters, sums, strict=True):
                parameter.grad = total / gathered[1]
            optimizer.step()
            torch._foreach_zero_(sums)
            gathered[:] = [0, 0]

    return hand_over


if __name__ == "__main__":
    main()
