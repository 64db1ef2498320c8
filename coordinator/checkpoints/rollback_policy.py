"""Decides when a run is rolled back, and to which checkpoint."""

import statistics
from collections.abc import Sequence

from coordinator.checkpoints.checkpoint import Checkpoint

BAD_STEPS = 3  # in a row; a single one may be a few samples of an odd text
ENOUGH_STEPS = 10  # of which the usual loss is known, before anything is called unusual
RECENT_STEPS = 20  # that say what is usual; the loss falls, and what was usual long ago is not
SMALLEST_JUMP = 1.0  # nats above the usual
SPREADS = 8.0  # of the usual losses; of those of a normal distribution not one in 10**15 is so far off


def is_bad(loss: float, best: float) -> bool:
    """Whether a held-out loss (nats) is that of a model that has diverged since the run's best one."""
    return not loss <= best + SMALLEST_JUMP  # a NaN is bad, too


def newest_good(checkpoints: Sequence[Checkpoint], best: float) -> Checkpoint | None:
    """The newest checkpoint whose own held-out loss is not bad."""
    good = [one for one in checkpoints if one.state.eval_loss is not None and not is_bad(one.state.eval_loss, best)]
    return max(good, key=lambda one: one.step, default=None)


def has_exploded(losses: Sequence[float]) -> bool:
    """Whether the mean training losses (nats) of successive global steps are far above what was usual.

    Peers report these losses themselves, so they are a reason to evaluate the model and no more. The usual is the
    median of the steps before; its spread is the median absolute deviation, scaled to a standard deviation.
    """
    before, last = losses[:-BAD_STEPS][-RECENT_STEPS:], losses[-BAD_STEPS:]
    if len(before) < ENOUGH_STEPS:
        return False
    usual = statistics.median(before)
    spread = 1.4826 * statistics.median(abs(loss - usual) for loss in before)
    return all(not loss <= usual + max(SMALLEST_JUMP, SPREADS * spread) for loss in last)  # a NaN is above, too
