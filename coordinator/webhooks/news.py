"""What is told of a run: its beginning, better checkpoints now and then, releases, its end. Nothing about persons."""

from collections.abc import Callable, Iterable, Sequence

from coordinator.checkpoints.checkpoint import TrainerState
from coordinator.ledger.answers import FilledSentence, compared
from swarm import clock
from swarm.access.notices import BestCheckpoint
from swarm.run_file import MASK, RunFile

# seconds between two; every checkpoint of a healthy run is the best one so far
BETWEEN_CHECKPOINTS = 6 * 3600.0  # of which webhooks are told
BETWEEN_MOMENTS = 600.0  # of which those who train are told
LONGEST_SENTENCE = 200  # characters


class News:
    """Remembers what was told since the coordinator's start. Threads may share it.

    Args:
        tell: takes one message, and returns at once.
        show: takes a best checkpoint of which those who train are told.
        step: the global step at which the coordinator starts.
        losses: held-out losses of older checkpoints, in nats.
        stopped: whether the organizer has ended the run.
    """

    def __init__(
        self,
        run: RunFile,
        tell: Callable[[str], None],
        show: Callable[[BestCheckpoint], None] = lambda _: None,
        *,
        step: int,
        losses: Iterable[float] = (),
        stopped: Callable[[], bool] = bool,
        now: Callable[[], float] = clock.now,
    ):
        self._run, self._tell, self._show, self._stopped, self._now = run, tell, show, stopped, now
        self.note_losses(losses)
        self._told_at = self._shown_at = float("-inf")  # unix seconds: when a checkpoint was told of, and shown
        self._shown = 0  # how often
        self._ended = self._has_ended(step)

    def note_opening(self) -> None:
        """Tell that the run has begun."""
        run, link = self._run, self._run.access.url
        about = f": {run.description}" if run.description else ""
        join = f"\nJoin: {link}" if link else ""
        self._tell(f"The run {run.name} has begun{about}{join}")

    def note_losses(self, losses: Iterable[float]) -> None:
        """From now on these held-out losses of older checkpoints count, in nats; a rollback may have undone others."""
        self._best = min(losses, default=float("inf"))

    def note_step(self, step: int) -> None:
        """Tell each time the run ends, by itself or by order."""
        had_ended, self._ended = self._ended, self._has_ended(step)  # an order may be taken back
        if self._ended and not had_ended:
            total = self._run.optimizer.total_steps
            stopped = f"at global step {step} of {total}: the organizer stopped it"
            after = f"after {step} global steps" if step >= total else stopped
            is_known = self._best < float("inf")
            best = f" The best checkpoint has a held-out loss of {self._best:.2f} nats." if is_known else ""
            self._tell(f"The run {self._run.name} has ended {after}.{best}")

    def note_checkpoint(self, state: TrainerState, filled: Sequence[FilledSentence] = ()) -> None:
        """Tell of a checkpoint that is better than all before, and than a table, unless one was told of lately.

        Args:
            filled: what the model fills into the run's sentences now.
        """
        if state.eval_loss is None or state.eval_loss >= self._best:
            return
        self._best = state.eval_loss
        if state.below_unigram is None or state.below_unigram <= 0:
            return
        now = self._now()
        if now >= self._told_at + BETWEEN_CHECKPOINTS:
            self._told_at = now
            self._tell(
                f"{self._run.name}: the checkpoint of global step {state.step} of {self._run.optimizer.total_steps} is "
                f"the best so far. {describe_loss(state)}"
            )
        if now >= self._shown_at + BETWEEN_MOMENTS:
            sentence = in_words(filled[self._shown % len(filled)]) if filled else ""
            self._shown_at, self._shown = now, self._shown + 1
            self._show(BestCheckpoint(state.step, state.eval_loss, state.below_unigram, sentence))

    def note_release(self, state: TrainerState, tags: Iterable[str], url: str) -> None:
        """Tell of a checkpoint that everybody can load now."""
        names = ", ".join(tags)
        self._tell(
            f"{self._run.name}: global step {state.step} is released{f' as {names}' if names else ''}. "
            f"{describe_loss(state)}\n{url}"
        )

    def _has_ended(self, step: int) -> bool:
        return step >= self._run.optimizer.total_steps or self._stopped()


def describe_loss(state: TrainerState) -> str:
    """The held-out loss, and how far it is from that of word frequencies alone."""
    if state.eval_loss is None:
        return "It was not evaluated."
    return f"Held-out loss: {state.eval_loss:.2f} nats{compared(state.below_unigram)}."


def in_words(filled: FilledSentence) -> str:
    """A sentence with the likeliest word in its gap; empty if there is none, or if it is too long for a line."""
    if not filled.guesses:
        return ""
    sentence = " ".join(filled.text.replace(MASK, f"[{filled.guesses[0].token}]", 1).split())
    return sentence if len(sentence) <= LONGEST_SENTENCE else ""
