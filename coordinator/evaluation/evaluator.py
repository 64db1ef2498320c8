"""Evaluates states of the run on held-out text and fills the masks of its probes; both go into the ledger."""

import contextlib
import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from transformers import PreTrainedTokenizerFast

from coordinator.checkpoints.store import restore_model
from coordinator.evaluation.probes import Probe, fill
from coordinator.evaluation.unigram import UnigramBaseline
from coordinator.ledger.answers import FilledSentence, below_unigram, compared
from coordinator.ledger.storage.database import LedgerError
from coordinator.replica import Snapshot
from coordinator.run_context import RunContext
from coordinator.tracking.tracker import Tracker
from experts.calls import NoExperts
from swarm import clock
from swarm.logging.logs import log_failure
from trainer.data import Batch
from trainer.experts import ReachedExperts
from trainer.model import PretrainingModel

LEAST_ANSWERED = 0.9  # of the calls of experts; with fewer answers, the loss is that of another model
LARGEST_EXPONENT = 700.0  # the exponential of more is no float


@dataclass(frozen=True)
class Evaluation:
    """Held-out losses in nats: means over masked positions and over samples; accuracy from 0 to 1.

    Those of the order of sentences are None if the model does not learn it.
    """

    masked_lm_loss: float
    sentence_order_loss: float | None
    sentence_order_accuracy: float | None
    samples: int

    @property
    def perplexity(self) -> float:
        """Perplexity of a masked token; infinite where the loss has exploded."""
        return perplexity(self.masked_lm_loss)


def perplexity(loss: float) -> float:
    """The exponential of a loss in nats; infinite where it has exploded."""
    return math.exp(loss) if loss < LARGEST_EXPONENT else math.inf


class _Stopped(Exception):
    """An evaluation is not finished."""


def _while(goes_on: Callable[[], bool], batches: Iterable[Batch]) -> Iterator[Batch]:
    for batch in batches:
        if not goes_on():
            raise _Stopped
        yield batch


@torch.no_grad()
def evaluate(model: PretrainingModel, batches: Iterable[Batch]) -> Evaluation:
    """Run the model over held-out batches in float32, without dropout, and restore its mode.

    Every masked position counts the same, however samples are grouped into batches.

    Args:
        model: on any device; batches are moved to it. What is evaluated is the trunk alone, unless it reaches experts.
        batches: masked samples, as `coordinator.evaluation.held_out` gives them.

    Raises:
        ValueError: there is no sample, or nothing is masked in any of them.
    """
    masked_lm_loss = order_loss = 0.0
    masked = samples = ordered = correct = 0
    was_training = model.training
    model.eval()
    try:
        for held_out in batches:
            batch = held_out.to(model.device)
            losses = model(batch)
            positions = held_out.masked
            if positions:  # the mean over none is not a number
                masked_lm_loss += losses.masked_lm_loss.item() * positions
            if losses.sentence_order_loss is not None:
                order_loss += losses.sentence_order_loss.item() * batch.samples
                correct += int((losses.sentence_order_scores.argmax(-1) == batch.sentence_order_label).sum())
                ordered += batch.samples
            masked += positions
            samples += batch.samples
    finally:
        model.train(was_training)
    if not masked:
        raise ValueError("held-out batches have no masked position to evaluate on")
    return Evaluation(
        masked_lm_loss=masked_lm_loss / masked,
        sentence_order_loss=order_loss / ordered if ordered else None,
        sentence_order_accuracy=correct / ordered if ordered else None,
        samples=samples,
    )


class Evaluator:
    """Holds a model of its own, into which it loads states; not for several threads.

    Args:
        experts: of the run, if it has any. What is recorded is the trunk alone, as everybody can use it.
    """

    def __init__(
        self,
        context: RunContext,
        model: PretrainingModel,
        tokenizer: PreTrainedTokenizerFast,
        held_out: list[Batch],
        probes: list[Probe],
        baseline: UnigramBaseline,
        tracker: Tracker,
        experts: ReachedExperts | None = None,
    ):
        self.model, self.tokenizer = model, tokenizer
        self.unigram_loss: float | None = None  # nats; known once the ledger's evaluations have it
        self._context, self._held_out, self._probes = context, held_out, probes
        self._baseline, self._tracker, self._experts = baseline, tracker, experts
        self._unrecorded: deque[Callable[[], None]] = deque()
        self._began = clock.now()

    def load(self, snapshot: Snapshot) -> PretrainingModel:
        """The model with the parameters of a snapshot."""
        restore_model(self.model, snapshot.model_state)
        return self.model

    def evaluate(self, snapshot: Snapshot, goes_on: Callable[[], bool]) -> Evaluation | None:
        """Evaluate and record a state; None without held-out text, or if it was given up.

        Args:
            goes_on: is called before each batch, in this thread; an evaluation for which it is false is given up.
        """
        if not self._held_out:
            return None
        self.load(snapshot)
        result = self._evaluate(goes_on)
        if result is None:
            return None
        with_experts, order = self._loss_with_experts(goes_on), result.sentence_order_accuracy
        self._record_when_possible(
            self._context.ledger.record_evaluation,
            snapshot.step,
            result.masked_lm_loss,
            sentence_order_loss=result.sentence_order_loss,
            samples=result.samples,
            sentence_order_accuracy=result.sentence_order_accuracy,
            unigram_loss=self.unigram_loss,
            loss_with_experts=with_experts,
        )
        if snapshot.step == 0:  # what an untrained model predicts
            self.fill_masks(snapshot.step)
        below = below_unigram(result.masked_lm_loss, self.unigram_loss)
        figures = {
            "held_out_loss": result.masked_lm_loss,
            "below_unigram": below,
            "held_out_loss_with_experts": with_experts,
        }
        self._tracker.log({name: one for name, one in figures.items() if one is not None}, snapshot.step)
        self._context.say(
            f"global step {snapshot.step}: held-out loss {result.masked_lm_loss:.3f}{compared(below)}"
            + ("" if with_experts is None else f", {with_experts:.3f} with experts")
            + ("" if order is None else f", sentence order right in {order:.0%}")
        )
        return result

    def _evaluate(self, goes_on: Callable[[], bool]) -> Evaluation | None:
        """Of what is loaded; None if it was given up."""
        with contextlib.suppress(_Stopped):
            return evaluate(self.model, _while(goes_on, self._held_out))
        return None

    def _loss_with_experts(self, goes_on: Callable[[], bool]) -> float | None:
        """The held-out loss with experts; None if it was given up, or too few calls were answered to tell of it."""
        term = self.model.expert_term
        if term is None or self._experts is None or not self._experts.caller.alive():
            return None
        term.mixture.caller = caller = self._experts.caller
        before = replace(caller.counts)
        try:
            found = self._evaluate(goes_on)
        except Exception as error:  # what is known of the trunk counts all the same
            log_failure(error, "the evaluation with experts has failed")
            return None
        finally:
            term.mixture.caller = NoExperts()
        calls, answered = caller.counts.asked - before.asked, caller.counts.answered - before.answered
        if found is None or not math.isfinite(found.masked_lm_loss):
            return None
        if answered < max(1, LEAST_ANSWERED * calls):
            self._context.say(
                f"Only {answered:,} of {calls:,} calls of experts were answered, so the held-out loss with them is not "
                "known."
            )
            return None
        return found.masked_lm_loss

    def close(self) -> None:
        """Reach no more experts; before the DHT is shut down."""
        if self._experts is not None:
            self._experts.close()

    def fill_masks(self, step: int) -> list[FilledSentence]:
        """Record what the loaded model, which is that of this global step, predicts for the probes."""
        filled = fill(self.model, self.tokenizer, self._probes)
        if filled:
            self._record_when_possible(self._context.ledger.history.record_fills, step, filled)
        return filled

    def _record_when_possible(self, write: Callable[..., None], *found: Any, **more: Any) -> None:
        self._unrecorded.append(partial(write, *found, **more, now=clock.now()))
        with contextlib.suppress(LedgerError):  # the next call of `record` tells of it
            self.record()

    def record(self) -> None:
        """Write into the ledger what it could not take before.

        Raises:
            LedgerError: it cannot take it now either; the next call tries again.
        """
        while self._unrecorded:
            self._unrecorded[0]()
            self._unrecorded.popleft()

    def record_unigram_loss(self) -> None:
        """Add the unigram loss to the evaluations since the start, as soon as it is known."""
        loss = self._baseline.loss
        if loss is not None and self.unigram_loss is None:
            self._context.ledger.record_unigram_loss(loss, since=self._began)
            self.unigram_loss = loss
            self._context.say(f"Guessing from word frequencies alone has a held-out loss of {loss:.3f}.")
