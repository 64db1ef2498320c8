"""One trainer of `benchmarks.swarm`: alone with its own optimizer, or in a swarm; writes what it measured."""

import argparse
import base64
import json
import os
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

from averaging.log.header import Entry, HeaderKind
from averaging.log.state import Layout
from averaging.optimizer import CollaborativeOptimizer
from averaging.optimizers.state_step import StateOptimizer, initial_state
from averaging.reduce.gradient_vector import GradientVector
from averaging.shell.connection import Membership
from corpus.documents import open_documents
from swarm.access.gate import Gate
from swarm.files import write_file
from swarm.identity import Identity
from swarm.leaving import end_helpers
from swarm.run_file import RunFile, load_run
from swarm.run_file.fingerprint import fingerprint
from swarm.version import program_version
from tokenizer.loading import load_tokenizer, tokenizer_digest
from trainer.data import Batch, BatchPrefetcher
from trainer.model import PretrainingModel, build_model
from trainer.precision import Precision

MICRO_BATCH = 16
WARM_UP_STEPS = 2  # global steps before the clock starts
PAUSE = 0.01  # seconds between two looks of a trainer that has nothing to compute


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
    parser.add_argument("--url", help="of the coordinator; absent: train alone")
    options = parser.parse_args()
    run = load_run(options.run)
    tokenizer = load_tokenizer(run)
    model = build_model(run, tokenizer)
    digest = tokenizer_digest(tokenizer)
    side = Swarm(run, model, digest, options.url) if options.url else Alone(run, model)
    documents = open_documents(run, run.data.train, seed=options.number, repeat=True)
    with BatchPrefetcher(documents, tokenizer, run, batch_size=MICRO_BATCH, seed=options.number) as feed:
        measured = _measure(model, feed, side, options.seconds)
    write_file(options.output, json.dumps(asdict(measured)))
    end_helpers()
    os._exit(0)  # helpers are killed: nothing is left to close in order


def _measure(model: PretrainingModel, feed: BatchPrefetcher, side: "Alone | Swarm", seconds: float) -> Measured:
    precision = Precision(torch.device("cpu"), torch.bfloat16)
    samples, computed, first_step, first_failures, first_round = 0, 0.0, 0, 0, 0
    began: float | None = None
    while began is None or time.monotonic() < began + seconds:
        if not side.trains():
            time.sleep(PAUSE)
            continue
        turned_to_it = time.thread_time()
        batch = feed.next()
        side.begin_batch()
        model.zero_grad(set_to_none=True)
        with precision.autocast():
            loss = model(batch).loss
        loss.backward()
        computed += time.thread_time() - turned_to_it
        side.end_batch(batch, float(loss.detach()))
        samples += batch.samples
        if began is None and side.is_warm():
            began, samples, computed = time.monotonic(), 0, 0.0
            first_step, first_failures, first_round = side.step, side.failures, len(side.rounds)
    took = time.monotonic() - began
    return Measured(
        samples,
        took,
        computed / took,
        side.step,
        side.step - first_step,
        side.rounds[first_round:],
        side.failures - first_failures,
    )


class Swarm:
    """A trainer's part in a run."""

    def __init__(self, run: RunFile, model: PretrainingModel, digest: str, url: str):
        from swarm.dht.node import Network, join_dht
        from swarm.identity import load_identity

        self.rounds: list[float] = []  # seconds of each
        self.failures = 0
        self._newest: Entry | None = None
        folder = Path(tempfile.mkdtemp())
        identity = load_identity(folder / "identity.key")
        gate, addresses = _enter(run, url, folder, identity)
        network = Network(initial_peers=addresses, listen=("/ip4/127.0.0.1/tcp/0",))
        dht = join_dht(run.name, identity, network, gate)
        membership = Membership(run, fingerprint(run, digest).digest, dht, identity, gate)
        self._optimizer = CollaborativeOptimizer(membership, list(model.named_parameters()), self._applied)
        self.trains = lambda: self._optimizer.trains
        self.begin_batch = self._optimizer.begin_batch

    def _applied(self, entry: Entry, seconds: float | None, *_: object) -> None:
        """In another thread."""
        before, self._newest = self._newest, entry
        if entry.header.kind is HeaderKind.UPDATE and before is not None:
            self.failures += max(0, entry.certificate.ballot.number - before.certificate.ballot.number - 1)
            if seconds is not None:
                self.rounds.append(seconds)

    @property
    def step(self) -> int:
        """The newest one."""
        return self._optimizer.step

    def is_warm(self) -> bool:
        """Whether the clock may start."""
        return self.step >= WARM_UP_STEPS

    def end_batch(self, batch: Batch, loss: float) -> None:
        """Hand over the gradients."""
        self._optimizer.end_batch(batch.masked, batch.samples, loss)


class Alone:
    """The same optimizer without peers: gradients add up to the target batch, then a step."""

    def __init__(self, run: RunFile, model: PretrainingModel):
        self.step, self.failures, self.rounds = 0, 0, list[float]()
        self._target, self._warm_until = run.averaging.target_batch_size, time.monotonic() + 5.0
        self._parameters = list(model.parameters())
        self._layout = Layout.of(model.named_parameters(), has_muon=run.optimizer.name == "muon")
        self._state = initial_state(self._layout, self._parameters)
        self._optimizer = StateOptimizer(self._layout, run.optimizer)
        self._gradient, self._total = GradientVector(self._parameters), torch.zeros(self._layout.size)
        self._samples = self._batches = 0

    def trains(self) -> bool:
        """Nobody has to be waited for."""
        return True

    def is_warm(self) -> bool:
        """Whether the clock may start."""
        return time.monotonic() > self._warm_until

    def begin_batch(self) -> None:
        """The parameters are in the model."""

    @torch.no_grad()
    def end_batch(self, batch: Batch, _: float) -> None:
        """Add the gradients up."""
        self._total += self._gradient.times(1)
        self._samples, self._batches = self._samples + batch.samples, self._batches + 1
        if self._samples >= self._target:
            self._state = self._optimizer.step(self._state, self._total / self._batches)
            for parameter, newest in zip(self._parameters, self._layout.views(self._state.parameters), strict=True):
                parameter.copy_(newest)
            self._total.zero_()
            self._samples = self._batches = 0


def _enter(run: RunFile, url: str, folder: Path, identity: Identity) -> tuple[Gate, list[str]]:
    """A pass, and whom to join."""
    from app.join.coordinator_client import CoordinatorClient
    from swarm.access.join_messages import JoinRequest
    from swarm.access.passes import read_pass

    request = JoinRequest(
        public_key=base64.b64encode(identity.private_key.get_public_key().to_bytes()),
        peer_id=str(identity.peer_id),
        version=program_version(),
        name=f"worker {os.getpid()}",
    )
    with CoordinatorClient(url) as client:
        answer = client.join(request, None)
    gate = Gate(folder, run.name, answer.authority, read_pass(answer.pass_), answer.notices)
    return gate, answer.initial_peers


if __name__ == "__main__":
    main()
