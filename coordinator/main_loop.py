"""The coordinator's loop: it keeps the ledger up to date, and evaluates and saves the model when that is due."""

import contextlib
import datetime
import math
import re
import time
from collections.abc import Callable
from pathlib import Path

import torch

from averaging.optimizer import LEAVING
from coordinator.checkpoints.checkpoint import TrainerState
from coordinator.checkpoints.retention import prune
from coordinator.checkpoints.rollback import Rollback
from coordinator.checkpoints.store import save_checkpoint
from coordinator.evaluation.evaluator import Evaluation, Evaluator
from coordinator.expert_states import ExpertStates
from coordinator.ledger.answers import below_unigram
from coordinator.ledger.recorder import Recorder
from coordinator.ledger.storage.database import LedgerBroken, LedgerError
from coordinator.public_run import for_everybody
from coordinator.release.uploader import Releaser
from coordinator.replica import Replica, Snapshot
from coordinator.run_context import RunContext
from coordinator.state_folder import RANDOM
from coordinator.tracking.tracker import Tracker
from coordinator.webhooks.news import News
from swarm import clock
from swarm.errors import SahajError, in_a_line
from swarm.leaving import Asked
from swarm.logging.logs import log_failure
from swarm.version import program_version

POLL_EVERY = 1.0  # seconds between two readings of the swarm's records
LONGEST_PAUSE = 15.0  # seconds between two tries of something that fails
DIGITS = re.compile(r"[\d.,]+")
TELL_AGAIN = 600.0  # seconds after which a problem that lasts is told once more


class CoordinatorLoop:
    """Follows the replica and the session records in a thread of its own; the swarm never waits for it."""

    def __init__(
        self,
        context: RunContext,
        replica: Replica,
        recorder: Recorder,
        evaluator: Evaluator,
        rollback: Rollback,
        tracker: Tracker,
        releaser: Releaser | None,
        experts: ExpertStates | None,
        held_back: frozenset[Path],
        stop: Asked,
        *,
        news: News,
        evaluated: int,
        saved: int,
    ):
        """`evaluated` and `saved` are the newest global steps with a held-out loss and a checkpoint, or -1."""
        self._stop = stop
        self._context, self._replica, self._recorder = context, replica, recorder
        self._evaluator, self._rollback, self._tracker, self._releaser = evaluator, rollback, tracker, releaser
        self._news, self._evaluated, self._saved = news, evaluated, saved
        self._experts, self._held_back = experts, held_back  # checkpoints that wait for the experts' states
        self._seen = replica.step
        self._scores: Evaluation | None = None  # of the model after global step `_evaluated`
        self._suspected = -1  # the newest global step of which losses or gradients were a reason to evaluate
        self._pause = POLL_EVERY  # seconds until the next turn
        self._turned = 0.0  # unix time, seconds: when the last turn began
        self._clock_set_by = 0.0  # seconds, as last reported
        self._samples = context.ledger.totals().samples  # as last read
        self._told: dict[tuple[Callable[[], object], str], float] = {}  # problems that last, and when they were told
        self._is_second_try = False  # of an evaluation

    def work(self) -> None:
        """Look for what is due and do it, until `stop` is set; then save what is not saved yet."""
        while not self._stop.wait(self._pause):
            self._turn(self._look)
        self._replica.has_stopped.wait(LEAVING)
        self._reporting_errors(self._note_rollback)
        if self._replica.step > max(self._saved, 0) and not self._rollback.is_proposed:
            self._reporting_errors(lambda: self._save(self._replica.snapshot()))
        self._reporting_errors(lambda: self._recorder.bring_up_to_date(final=True))
        self._reporting_errors(self._evaluator.record)

    def _turn(self, *more: Callable[[], None]) -> None:
        self._turned = clock.now()
        tasks = [self._rollback.follow_order, self._keep_ledger, *more]
        if self._experts is not None:
            tasks.append(self._experts.follow_rollback)
        well = [self._reporting_errors(task) for task in tasks]
        self._pause = POLL_EVERY if all(well) else min(2 * self._pause, LONGEST_PAUSE)

    def _goes_on(self) -> bool:
        """Keep the ledger between two batches of an evaluation; returns whether that is still of use."""
        if clock.now() >= self._turned + self._pause:
            self._turn()
        return not (self._stop.is_set() or self._is_undone())

    def _is_undone(self) -> bool:
        """Whether the newest state that was looked at is about to be undone, or has been."""
        return self._rollback.is_proposed or self._replica.is_restored

    def _keep_ledger(self) -> None:
        """Write what is new. While its database is away, the swarm trains, and its model is evaluated and saved."""
        sessions, step = self._recorder.bring_up_to_date(), self._replica.step
        self._evaluator.record()
        self._evaluator.record_unigram_loss()
        if step != self._seen:
            self._seen = step
            self._report_step(step, sessions)
            if self._rollback.needs_evaluation(step):
                self._suspected = step

    def _look(self) -> None:
        """Evaluate and save what is due; nothing here needs the ledger."""
        self._note_rollback()
        step = self._replica.step
        self._news.note_step(step)
        self._report_clock()
        if self._experts and self._held_back - self._experts.pending:
            self._offer()
        if self._rollback.is_proposed or not any(self._due(step)):  # a state that is about to be undone is not saved
            return
        snapshot = self._replica.snapshot()
        # another step may have been taken since
        evaluation_due, checkpoint_due = self._due(snapshot.step)
        if evaluation_due or (checkpoint_due and snapshot.step > self._evaluated):
            scores = self._evaluate(snapshot)
            if self._is_undone():
                return
            self._scores, self._evaluated = scores, snapshot.step
            if self._scores and self._rollback.roll_back_if_bad(self._scores.masked_lm_loss):
                return
        if checkpoint_due:
            self._save(snapshot)

    def _evaluate(self, snapshot: Snapshot) -> Evaluation | None:
        """None also where that fails twice, which must not keep the state from being saved."""
        try:
            scores = self._evaluator.evaluate(snapshot, self._goes_on)
            self._is_second_try = False
            return scores
        except Exception as error:
            self._is_second_try = not self._is_second_try
            if self._is_second_try:
                raise
            log_failure(error, "an evaluation has failed")
            reason = f"{type(error).__name__}: {in_a_line(error)}"
            self._context.say(
                f"problem: global step {snapshot.step} was not evaluated ({reason}), so a checkpoint of it has no "
                "held-out loss; if this repeats, check data.validation and start the coordinator again, or see the log "
                "and report it"
            )
            return None

    def _note_rollback(self) -> None:
        """Each time the run has gone back to an older state, have what is undone not count, and save that state."""
        while (found := self._replica.restored()) is not None:
            restored, older = found
            self._rollback.note_rollback(restored.step, older)
            self._news.note_losses(self._rollback.losses())
            self._save(restored)

    def _due(self, step: int) -> tuple[bool, bool]:
        """Whether an evaluation and a checkpoint are due at this global step."""
        settings, total = self._context.run.coordinator, self._context.run.optimizer.total_steps
        is_suspect = self._evaluated < min(step, self._suspected)
        return (
            is_suspect or is_due(step, self._evaluated, settings.evaluate_every, total),
            step > 0 and is_due(step, self._saved, settings.checkpoint_every, total),
        )

    def _report_step(self, step: int, sessions: int) -> None:
        progress = self._context.ledger.progress()
        loss = "" if progress.loss is None else f", training loss {progress.loss:.3f}"
        trainers = "1 trainer" if sessions == 1 else f"{sessions} trainers"
        self._context.say(
            f"global step {step} of {self._context.run.optimizer.total_steps}: {trainers}, "
            f"{progress.samples_per_second:.0f} samples/s{loss}"
        )
        figures = {"trainers": float(sessions), "samples_per_second": progress.samples_per_second}
        if progress.loss is not None:
            figures["loss"] = progress.loss
        # the loss is that of the newest global step in the ledger, which counts steps from 0
        self._tracker.log(figures | {"samples": float(progress.samples)}, progress.step + 1)

    def _report_clock(self) -> None:
        ahead = clock.set_by()
        if abs(ahead - self._clock_set_by) > clock.SLACK:
            self._clock_set_by = ahead
            self._context.say(describe_clock(ahead))

    def _save(self, snapshot: Snapshot) -> None:
        context, state = self._context, self._trainer_state(snapshot.step)
        path = save_checkpoint(
            context.checkpoints,
            model=self._evaluator.load(snapshot),
            tokenizer=self._evaluator.tokenizer,
            optimizer_state=snapshot.optimizer_state,
            run=for_everybody(context.run),
            state=state,
        )
        self._saved = snapshot.step
        if self._experts:
            self._experts.collect_for(path)
        self._offer()
        context.say(f"global step {snapshot.step}: saved {path}")
        self._news.note_checkpoint(state, self._evaluator.fill_masks(snapshot.step))

    def _offer(self) -> None:
        """Offer for release what is whole, and remove what is not needed any longer."""
        context, settings = self._context, self._context.run.coordinator
        self._held_back = self._experts.pending if self._experts else frozenset()
        counted, spared = self._rollback.checkpoints(), self._rollback.goals()
        if self._releaser:
            spared |= self._releaser.offer([one for one in counted if one.path not in self._held_back])
        prune(context.checkpoints, counted, settings.keep_checkpoints, settings.keep_every, spared)

    def _trainer_state(self, step: int) -> TrainerState:
        scores = self._scores if self._evaluated == step else None
        if scores and not math.isfinite(scores.perplexity):
            scores = None  # JSON has no infinity
        with contextlib.suppress(LedgerError):
            self._samples = self._context.ledger.totals().samples
        saved_at = datetime.datetime.fromtimestamp(clock.now(), datetime.timezone.utc)
        unigram_loss = self._evaluator.unigram_loss if scores else None
        return TrainerState(
            run=self._context.run.name,
            step=step,
            samples=self._samples,
            eval_loss=scores.masked_lm_loss if scores else None,
            saved_at=saved_at.isoformat(timespec="seconds"),
            fingerprint=self._context.fingerprint.digest,
            software=f"sahaj {program_version()}, torch {torch.__version__}",
            perplexity=scores.perplexity if scores else None,
            sentence_order_accuracy=scores.sentence_order_accuracy if scores else None,
            unigram_loss=unigram_loss,
            below_unigram=below_unigram(scores.masked_lm_loss, unigram_loss) if scores else None,
            random_embeddings=(self._context.folder / RANDOM).exists(),
        )

    def _reporting_errors(self, task: Callable[[], object]) -> bool:
        """Do a task; returns whether it went well. A full disk or a locked database must not end the run."""
        try:
            task()
        except SahajError as error:
            self._report(task, str(error))
            if isinstance(error, LedgerBroken):
                # at the next start its copy takes its place, and the log has the rest
                self._stop.fail(error.exit_status)
            return False
        except Exception as error:
            log_failure(error, "an error in the coordinator's main loop; it will be tried again")
            self._report(
                task,
                "the coordinator's main loop met an error and will try again "
                f"({type(error).__name__}: {error}); if this repeats, see the log and report it",
            )
            return False
        if self._told:
            left = {key: when for key, when in self._told.items() if key[0] != task}
            if left != self._told and task == self._keep_ledger:
                self._context.say("The ledger is up to date again.")
            self._told = left
        return True

    def _report(self, task: Callable[[], object], problem: str) -> None:
        """Tell the organizer of a problem, but not at each try of the task that has it."""
        now = time.monotonic()
        self._told = {key: when for key, when in self._told.items() if now < when + TELL_AGAIN}
        key = task, DIGITS.sub("", problem)  # free bytes differ at each try, and so does the step
        if key not in self._told:
            self._told[key] = now
            self._context.say(f"problem: {problem}")


def is_due(step: int, last: int, every: int, total: int) -> bool:
    """Whether a multiple of `every` was reached since global step `last` (-1: never), or the run's end."""
    return step > last and (last < 0 or step // every > last // every or step >= total)


def describe_clock(ahead: float) -> str:
    """What to say of a machine's clock that was put forward by so many seconds since the start, or back."""
    if not ahead:
        return "This machine's clock shows the swarm's time again."
    return (
        f"This machine's clock was put {'forward' if ahead > 0 else 'back'} by {abs(ahead):,.0f} s; the run keeps "
        "the time from before. If that was wrong, start the coordinator again, or volunteers cannot join."
    )
