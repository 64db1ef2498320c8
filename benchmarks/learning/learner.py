"""One process that trains as a whole swarm does: the same batches, losses, optimizer step and held-out text."""

import itertools
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch

from averaging.log.state import Layout
from averaging.optimizers.state_step import StateOptimizer, initial_state
from averaging.reduce.gradient_vector import GradientVector
from coordinator.evaluation.evaluator import evaluate
from coordinator.evaluation.held_out import held_out_batches
from coordinator.evaluation.unigram import count_tokens, masked_tokens, training_documents, unigram_loss
from coordinator.initialization.initialize import initialize
from corpus.documents import open_documents
from swarm.run_file import RunFile
from tokenizer.loading import load_tokenizer, save_tokenizer
from tokenizer.training import train_tokenizer
from trainer.data import Batch, BatchPrefetcher
from trainer.model import PretrainingModel, build_model

MICRO_BATCH = 32  # samples
HELD_OUT_BATCH = 32


@dataclass(frozen=True)
class Point:
    """Of a learning curve."""

    samples: int
    loss: float  # of held-out masked tokens, in nats


@dataclass(frozen=True)
class Curve:
    """What a model learned from some text."""

    points: tuple[Point, ...]
    optimizer_seconds: float  # of a global step, median

    @property
    def end(self) -> Point:
        """After the last step."""
        return self.points[-1]

    def samples_to(self, loss: float) -> float | None:
        """Samples until the held-out loss was first as low, between two evaluations in a line; None: it never was."""
        for before, after in itertools.pairwise(self.points):
            if after.loss <= loss < before.loss:
                part = (before.loss - loss) / (before.loss - after.loss)
                return before.samples + part * (after.samples - before.samples)
        return None


class HeldOut:
    """The held-out text of a run, masked in the same way for all that are compared."""

    def __init__(self, run: RunFile):
        tokenizer = load_tokenizer(run)
        documents = open_documents(run, run.data.validation, seed=0, repeat=False, shuffle=False)
        self._batches = held_out_batches(run, documents, tokenizer, HELD_OUT_BATCH)
        counts = count_tokens(training_documents(run), tokenizer, run.language)
        self.unigram = unigram_loss(counts, masked_tokens(self._batches))

    def loss(self, model: PretrainingModel) -> float:
        """Of masked tokens, in nats."""
        return evaluate(model, self._batches).masked_lm_loss


def make_tokenizer(run: RunFile) -> None:
    """Train the run's tokenizer on its text, and save it where the run file says."""
    documents = open_documents(run, run.data.train, seed=0, repeat=False)
    save_tokenizer(train_tokenizer(run, documents), run.resolve(run.tokenizer.path))


def begun(run: RunFile) -> PretrainingModel:
    """The run's model as its coordinator begins with it."""
    tokenizer = load_tokenizer(run)
    model = build_model(run, tokenizer)
    initialize(model, run, tokenizer, lambda line: None)
    return model


def our_batches(run: RunFile, seed: int) -> Iterator[Batch]:
    """Those of a trainer."""
    documents = open_documents(run, run.data.train, seed=seed, repeat=True)
    with BatchPrefetcher(documents, load_tokenizer(run), run, batch_size=MICRO_BATCH, seed=seed) as feed:
        while True:
            yield feed.next()


def learn(
    run: RunFile,
    model: PretrainingModel,
    batches: Iterator[Batch],
    held_out: HeldOut,
    evaluate_every: int,
    see: Callable[[Point], None] = lambda point: None,
    begins: Callable[[int], None] = lambda step: None,
) -> Curve:
    """Train a model for the run's global steps, in float32, with gradients of the newest parameters.

    Args:
        evaluate_every: global steps.
        see: is told each point of the curve.
        begins: is told each global step before its first batch, counted from 0.
    """
    parameters = list(model.parameters())
    layout = Layout.of(model.named_parameters(), has_muon=run.optimizer.name == "muon")
    state, optimizer = initial_state(layout, parameters), StateOptimizer(layout, run.optimizer)
    gradient = GradientVector(parameters)
    points, seconds, samples = [Point(0, held_out.loss(model))], [], 0
    for step in range(1, run.optimizer.total_steps + 1):
        begins(step - 1)
        gathered = masked = 0
        total = torch.zeros(layout.size)
        while gathered < run.averaging.target_batch_size:
            batch = next(batches)
            model.zero_grad()
            model(batch).loss.backward()
            total += gradient.times(batch.masked)
            gathered, masked = gathered + batch.samples, masked + batch.masked
        began = time.perf_counter()
        state = optimizer.step(state, total / masked)
        seconds.append(time.perf_counter() - began)
        with torch.no_grad():
            for parameter, value in zip(parameters, layout.views(state.parameters), strict=True):
                parameter.copy_(value)
        samples += gathered
        if step % evaluate_every == 0 or step == run.optimizer.total_steps:
            points.append(Point(samples, held_out.loss(model)))
            see(points[-1])
    return Curve(tuple(points), statistics.median(seconds))
