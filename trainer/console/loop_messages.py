"""What a volunteer is told while the training loop goes on: each change once."""

from averaging.optimizer import CollaborativeOptimizer
from averaging.protocol.buffers import REMEMBERED
from swarm.language import _
from trainer.pausing.decision import Pause
from trainer.pausing.watch import LEAVES_WITHIN
from trainer.training_step import BatchResult

USUAL_OVERFLOWS = 20  # in a row; the loss scale begins high and is halved at each
UNCOUNTED = 5  # usable batches in a row that came too late, after which the volunteer is told
OFTEN = 3  # steps without a peer's gradients, of the last few, of which its volunteer is told


class LoopMessages:
    """Remembers what the volunteer was last told, and what would be the next to tell."""

    def __init__(self) -> None:
        self._overflows = 0  # in a row
        self._uncounted = 0  # usable batches in a row
        self._rests = self._is_late = False  # as last told
        self._states_told = 0  # states loaded

    def of_batch(self, result: BatchResult) -> list[str]:
        """Of a batch that cannot be used, and of several that came too late."""
        messages = []
        self._overflows = self._overflows + 1 if result.is_overflow else 0
        if not result.is_finite and (not result.is_overflow or self._overflows > USUAL_OVERFLOWS):
            skipped = _(
                "One batch was skipped because its result was not a usable number (loss {loss}). If this repeats, "
                "tell the organizer."
            )
            messages.append(skipped.format(loss=f"{result.loss:.3g}"))
        self._uncounted = 0 if result.counts else self._uncounted + result.is_finite
        if result.is_finite and self._uncounted == UNCOUNTED:
            messages.append(
                _(
                    "Your last {n} results came too late to count: each took {seconds} s, and by then the others "
                    "were two global steps further. Only a faster device helps, or fewer samples at a time "
                    "(--micro-batch)."
                ).format(n=UNCOUNTED, seconds=f"{result.seconds:.1f}")
            )
        return messages

    def of_rollback(self, step: int) -> str:
        """The state that this peer loads for it is not told again."""
        self._states_told += 1
        told = _("The run goes back to an older state of the model, which is now global step {step}.")
        return told.format(step=f"{step:,}")

    def of_swarm(self, optimizer: CollaborativeOptimizer) -> list[str]:
        """Of whether this peer is to compute, whether the others wait for it, and a state that it has loaded."""
        messages, progress = [], optimizer.progress
        if progress.rests != self._rests:
            self._rests = progress.rests
            messages.append(role_line(trains=not progress.rests, share=progress.share, upload=optimizer.upload))
        if (change := lateness_line(progress.late, was_told=self._is_late)) is not None:
            self._is_late = not self._is_late
            messages.append(change)
        loaded = optimizer.states_loaded
        if loaded > self._states_told and not progress.is_behind and not progress.is_applying:
            told = (
                _("Others were ahead: loaded the state of global step {step} from the swarm.")
                if self._states_told
                else _("Loaded the state of global step {step} from the swarm.")
            )
            messages.append(told.format(step=f"{optimizer.step:,}"))
            self._states_told = loaded
        return messages


def role_line(*, trains: bool, share: float, upload: float | None) -> str:
    """What this peer does from now on, and why, in a sentence.

    Args:
        share: of the averaging that it does.
        upload: of its connection, in Mbit/s; None: it is not known.
    """
    if upload is None:
        line = _("your internet connection")
    else:
        line = _("your internet connection ({n} Mbit/s upload)").format(n=f"{upload:.3g}")
    if trains and share:
        told = _("This computer computes gradients again, and does {share} of the averaging.")
    elif trains:
        told = _("This computer computes gradients again; others average them.")
    elif share:
        told = _(
            "From now on {line} helps more than your processor, so this computer only averages: {share} of the whole "
            "run's averaging."
        )
    else:
        told = _(
            "{line} is too slow to send results in time, so the others would have to wait. This computer now only "
            "keeps up with the model; it will train again when that helps."
        )
    sentence = told.format(line=line, share=f"{share:.0%}")
    return sentence[0].upper() + sentence[1:]


def pause_line(pause: Pause | None) -> str:
    """That a pause begins; None: that it is over."""
    if pause is None:
        return _("Training again.")
    told = (
        _("Pausing: {reason}. The work done so far counts towards the next global step.")
        if pause.cause.stays
        else _(
            "Pausing: {reason}. The work done so far counts towards the next global step, if that begins within {n} s."
        )
    )
    return told.format(reason=pause.reason, n=f"{LEAVES_WITHIN:.0f}")


def batch_size_line(size: int, before: int) -> str:
    """That another number of samples is computed at a time."""
    told = (
        _("The memory is full: computing {n} samples at a time.")
        if size < before
        else _("There may be memory again: computing {n} samples at a time.")
    )
    return told.format(n=size)


def text_line(lacks_for: float | None, trouble: str) -> str:
    """That no text has arrived for so many seconds, and why, if that is known; None: that it is there again."""
    if lacks_for is None:
        return _("The text is there again.")
    told = _("No text has arrived for {n} s{reason}. This program goes on when it does.")
    return told.format(n=f"{lacks_for:.0f}", reason=f" ({trouble})" if trouble else "")


def lateness_line(late: int, *, was_told: bool) -> str | None:
    """What a volunteer should know of gradients that others do not wait for; None: nothing new.

    Args:
        late: of the last steps.
    """
    if late >= OFTEN and not was_told:
        return _(
            "In {n} of the last {all} global steps your results arrived too late, so the others now wait less for "
            "them. Is your internet connection slow or busy? Results that arrive in time count again."
        ).format(n=late, all=REMEMBERED)
    if not late and was_told:
        return _("Your results arrive in time again.")
    return None
