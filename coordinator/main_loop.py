"""What the coordinator writes down while the swarm trains: the ledger, held-out losses, checkpoints."""

import datetime
import itertools
import math
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from transformers import PreTrainedTokenizerFast

from averaging.optimizer import LEAVING
from coordinator.checkpoints.rollback import Recall
from coordinator.checkpoints.store import TrainerState, list_checkpoints, prune, restore_model, save_checkpoint
from coordinator.evaluation.held_out import Evaluation, evaluate
from coordinator.evaluation.probes import Probe, fill
from coordinator.evaluation.unigram import below_unigram, compared
from coordinator.evaluation.unigram_count import UnigramBaseline
from coordinator.ledger.ledger import Ledger
from coordinator.ledger.minutes import MinuteRecorder
from coordinator.ledger.recorder import Recorder
from coordinator.public_run import for_everybody
from coordinator.release.uploader import Releaser
from coordinator.replica import RunLog, Snapshot
from coordinator.tracking import Tracker
from swarm import clock
from swarm.errors import SahajError
from swarm.logging.logs import keep_story
from swarm.program import program_version
from swarm.run_file import RunFile
from trainer.data import Batch
from trainer.model import PretrainingModel

LOOK_EVERY = 1.0  # seconds between two readings of the swarm's records
LONGEST_PAUSE = 15.0  # seconds between two tries of something that fails


@dataclass(frozen=True)
class Office:
    """What the bookkeeping works with. `model` is a copy of its own."""

    run: RunFile
    fingerprint: str
    folder: Path  # of checkpoints
    tokenizer: PreTrainedTokenizerFast
    model: PretrainingModel
    held_out: list[Batch]
    baseline: UnigramBaseline
    ledger: Ledger
    tracker: Tracker
    say: Callable[[str], None]
    autocast: bool  # evaluate in bfloat16
    historian: MinuteRecorder
    probes: list[Probe]  # fixed sentences with masks, to be filled at checkpoints
    releaser: Releaser | None = None  # takes checkpoints to the Hub


class Bookkeeper:
    """Follows the log and the session records in a thread of its own; the swarm never waits for it."""

    def __init__(
        self,
        office: Office,
        log: RunLog,
        recorder: Recorder,
        recall: Recall,
        *,
        evaluated: int,
        saved: int,
    ):
        """`evaluated` and `saved` are the newest global steps with a held-out loss and a checkpoint, or -1."""
        self._office, self._log, self._recorder, self._recall = office, log, recorder, recall
        self._evaluated, self._saved = evaluated, saved
        self._seen = log.step
        self._scores: Evaluation | None = None  # of the model after global step `_evaluated`
        self._began = clock.now()
        self._unigram_loss: float | None = None  # once the evaluations in the ledger have it
        self._clock_set_by = 0.0  # seconds, as it was told

    def work(self, stop: threading.Event) -> None:
        """Look, write, rest, until `stop` is set; then save what is not saved yet."""
        pause = LOOK_EVERY
        while not stop.wait(pause):
            well = self._guarded(self._recall.follow_order) & self._guarded(lambda: self._look(stop))
            pause = LOOK_EVERY if well else min(2 * pause, LONGEST_PAUSE)
        self._log.has_stopped.wait(LEAVING)
        if self._log.step > max(self._saved, 0):
            self._guarded(lambda: self._save(self._log.snapshot()))
        self._guarded(lambda: self._recorder.bring_up_to_date(final=True))

    def _look(self, stop: threading.Event) -> None:
        sessions = self._recorder.bring_up_to_date()
        if (restored := self._log.restored()) is not None:
            self._recall.went_back(restored.step)
            self._save(restored)
        step = self._log.step
        self._office.historian.note(step)
        if step != self._seen:
            self._seen = step
            self._tell(step, sessions)
            if self._recall.is_worried(step):
                self._evaluated = min(self._evaluated, step - self._office.run.coordinator.evaluate_every)  # it is due
        self._tell_of_clock()
        self._compare_evaluations()
        if not any(self._due(step)):
            return
        snapshot = self._log.snapshot()
        # another step may have been taken since
        evaluation_due, checkpoint_due = self._due(snapshot.step)
        if evaluation_due or (checkpoint_due and snapshot.step > self._evaluated):
            self._scores = self._evaluate(snapshot, stop) if self._office.held_out else None
            self._evaluated = snapshot.step
            if self._scores and self._recall.go_back_if_bad(self._scores.masked_lm_loss):
                return
        if checkpoint_due:
            self._save(snapshot)

    def _due(self, step: int) -> tuple[bool, bool]:
        """Whether an evaluation and a checkpoint are due at this global step."""
        settings, total = self._office.run.coordinator, self._office.run.optimizer.total_steps
        return (
            is_due(step, self._evaluated, settings.evaluate_every, total),
            step > 0 and is_due(step, self._saved, settings.checkpoint_every, total),
        )

    def _tell(self, step: int, sessions: int) -> None:
        progress = self._office.ledger.progress()
        loss = "" if progress.loss is None else f", training loss {progress.loss:.3f}"
        self._office.say(
            f"global step {step} of {self._office.run.optimizer.total_steps}: {sessions} trainers, "
            f"{progress.samples_per_second:.0f} samples/s{loss}"
        )
        figures = {"trainers": float(sessions), "samples_per_second": progress.samples_per_second}
        if progress.loss is not None:
            figures["loss"] = progress.loss
        # the loss is that of the newest global step in the ledger, which counts steps from 0
        self._office.tracker.log(figures | {"samples": float(progress.samples)}, progress.step + 1)

    def _tell_of_clock(self) -> None:
        ahead = clock.set_by()
        if abs(ahead - self._clock_set_by) > clock.SLACK:
            self._clock_set_by = ahead
            self._office.say(describe_clock(ahead))

    def _compare_evaluations(self) -> None:
        """With the unigram loss, as soon as it is known."""
        loss = self._office.baseline.loss
        if loss is not None and self._unigram_loss is None:
            self._office.ledger.record_unigram_loss(loss, since=self._began)
            self._unigram_loss = loss
            self._office.say(f"A table of word frequencies has a held-out loss of {loss:.3f}.")

    def _evaluate(self, snapshot: Snapshot, stop: threading.Event) -> Evaluation | None:
        restore_model(self._office.model, snapshot.model_state)
        batches = itertools.takewhile(lambda _: not stop.is_set(), self._office.held_out)
        result = evaluate(self._office.model, batches, autocast=self._office.autocast)
        if stop.is_set():  # the figure is of a part of the text; leaving in time matters more
            return None
        self._office.ledger.record_evaluation(
            snapshot.step,
            result.masked_lm_loss,
            sentence_order_loss=result.sentence_order_loss,
            samples=result.samples,
            sentence_order_accuracy=result.sentence_order_accuracy,
            unigram_loss=self._unigram_loss,
        )
        if snapshot.step == 0:  # what a model knows that has learned nothing
            self._fill_masks(snapshot.step)
        below = below_unigram(result.masked_lm_loss, self._unigram_loss)
        figures = {"held_out_loss": result.masked_lm_loss}
        self._office.tracker.log(figures if below is None else figures | {"below_unigram": below}, snapshot.step)
        self._office.say(
            f"global step {snapshot.step}: held-out loss {result.masked_lm_loss:.3f}{compared(below)}, "
            f"sentence order right in {result.sentence_order_accuracy:.0%}"
        )
        return result

    def _save(self, snapshot: Snapshot) -> None:
        office = self._office
        restore_model(office.model, snapshot.model_state)
        scores = self._scores if self._evaluated == snapshot.step else None
        if scores and not math.isfinite(scores.perplexity):
            scores = None  # JSON knows no infinity
        saved_at = datetime.datetime.fromtimestamp(clock.now(), datetime.timezone.utc)
        path = save_checkpoint(
            office.folder,
            model=office.model,
            tokenizer=office.tokenizer,
            optimizer_state=snapshot.optimizer_state,
            run=for_everybody(office.run),
            state=TrainerState(
                run=office.run.name,
                step=snapshot.step,
                samples=office.ledger.totals().samples,
                eval_loss=scores.masked_lm_loss if scores else None,
                saved_at=saved_at.isoformat(timespec="seconds"),
                fingerprint=office.fingerprint,
                software=f"sahaj {program_version()}, torch {torch.__version__}",
                perplexity=scores.perplexity if scores else None,
                sentence_order_accuracy=scores.sentence_order_accuracy if scores else None,
                unigram_loss=self._unigram_loss if scores else None,
                below_unigram=below_unigram(scores.masked_lm_loss, self._unigram_loss) if scores else None,
            ),
        )
        self._saved = snapshot.step
        settings = office.run.coordinator
        good = [one for one in list_checkpoints(office.folder) if not self._recall.is_left_behind(one.step)]
        spared = office.releaser.offer(good) if office.releaser else ()
        prune(office.folder, settings.keep_checkpoints, settings.keep_every, spared)
        office.say(f"global step {snapshot.step}: saved {path}")
        self._fill_masks(snapshot.step)

    def _fill_masks(self, step: int) -> None:
        """With the office's model, which has the parameters of this global step."""
        office = self._office
        if office.probes:
            office.ledger.history.record_fills(step, fill(office.model, office.tokenizer, office.probes))

    def _guarded(self, task: Callable[[], object]) -> bool:
        """A full disk or a locked database must not end the run: say it, and try again later."""
        try:
            task()
        except SahajError as error:
            self._office.say(f"problem: {error}")
            return False
        except Exception as error:
            keep_story(error, "the books could not be kept")
            self._office.say(f"problem: the books could not be kept ({type(error).__name__}: {error})")
            return False
        return True


def is_due(step: int, last: int, every: int, total: int) -> bool:
    """Whether a multiple of `every` was reached since global step `last` (-1: never), or the run's end."""
    return step > last and (last < 0 or step // every > last // every or step >= total)


def describe_clock(ahead: float) -> str:
    """What to say of a machine's clock that was put forward by so many seconds since the start, or back."""
    if not ahead:
        return "This machine's clock shows the swarm's time again."
    return (
        f"This machine's clock was put {'forward' if ahead > 0 else 'back'} by {abs(ahead):,.0f} s; the run goes on by "
        "the time it had. If the clock was wrong before, start the coordinator again, or volunteers cannot join."
    )
