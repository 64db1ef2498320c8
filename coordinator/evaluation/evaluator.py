"""Evaluates states of the run on held-out text and fills the masks of its probes; both go into the ledger."""

import itertools
import threading

from transformers import PreTrainedTokenizerFast

from coordinator.checkpoints.store import restore_model
from coordinator.context import RunContext
from coordinator.evaluation.held_out import Evaluation, bfloat16_is_faster, evaluate
from coordinator.evaluation.probes import Probe, fill
from coordinator.evaluation.unigram import UnigramBaseline, below_unigram, compared
from coordinator.replica import Snapshot
from coordinator.tracking import Tracker
from swarm import clock
from trainer.data import Batch
from trainer.model import PretrainingModel


class Evaluator:
    """Holds a model of its own, into which it loads states; not for several threads."""

    def __init__(
        self,
        context: RunContext,
        model: PretrainingModel,
        tokenizer: PreTrainedTokenizerFast,
        held_out: list[Batch],
        probes: list[Probe],
        baseline: UnigramBaseline,
        tracker: Tracker,
    ):
        self.model, self.tokenizer = model, tokenizer
        self.unigram_loss: float | None = None  # nats; known once the ledger's evaluations have it
        self._context, self._held_out, self._probes = context, held_out, probes
        self._baseline, self._tracker = baseline, tracker
        self._began = clock.now()
        self._autocast = bool(held_out) and bfloat16_is_faster(model, held_out[0])

    def load(self, snapshot: Snapshot) -> PretrainingModel:
        """The model with the parameters of a snapshot."""
        restore_model(self.model, snapshot.model_state)
        return self.model

    def evaluate(self, snapshot: Snapshot, stop: threading.Event) -> Evaluation | None:
        """Evaluate and record a state; None without held-out text, or if `stop` was set meanwhile.

        Raises:
            LedgerError: the result could not be recorded.
        """
        if not self._held_out:
            return None
        batches = itertools.takewhile(lambda _: not stop.is_set(), self._held_out)
        result = evaluate(self.load(snapshot), batches, autocast=self._autocast)
        if stop.is_set():  # the figure is of a part of the text; leaving in time matters more
            return None
        self._context.ledger.record_evaluation(
            snapshot.step,
            result.masked_lm_loss,
            sentence_order_loss=result.sentence_order_loss,
            samples=result.samples,
            sentence_order_accuracy=result.sentence_order_accuracy,
            unigram_loss=self.unigram_loss,
        )
        if snapshot.step == 0:  # what an untrained model predicts
            self.fill_masks(snapshot.step)
        below = below_unigram(result.masked_lm_loss, self.unigram_loss)
        figures = {"held_out_loss": result.masked_lm_loss}
        self._tracker.log(figures if below is None else figures | {"below_unigram": below}, snapshot.step)
        self._context.say(
            f"global step {snapshot.step}: held-out loss {result.masked_lm_loss:.3f}{compared(below)}, "
            f"sentence order right in {result.sentence_order_accuracy:.0%}"
        )
        return result

    def fill_masks(self, step: int) -> None:
        """Record what the loaded model, which is that of this global step, predicts for the probes."""
        if self._probes:
            self._context.ledger.history.record_fills(step, fill(self.model, self.tokenizer, self._probes))

    def record_unigram_loss(self) -> None:
        """Add the unigram loss to the evaluations since the start, as soon as it is known."""
        loss = self._baseline.loss
        if loss is not None and self.unigram_loss is None:
            self._context.ledger.record_unigram_loss(loss, since=self._began)
            self.unigram_loss = loss
            self._context.say(f"A table of word frequencies has a held-out loss of {loss:.3f}.")
