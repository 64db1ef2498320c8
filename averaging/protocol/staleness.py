"""Which batches are worth computing, and which gradients count: those of a state that is at most one step old."""

from averaging.protocol.buffers import Buffers
from averaging.protocol.settings import Settings

STALENESS = 1  # steps that may be decided between the state of a gradient and the one that it is applied to


def is_fresh(state: int, head: int) -> bool:
    """Whether a gradient of the state after `state` steps counts when `head` steps are decided."""
    return head <= state + STALENESS


def has_use(buffers: Buffers, settings: Settings, *, overlap: bool) -> bool:
    """Whether one more batch may go into these buffers before the next header takes some of them.

    With overlap there is room for this step, which is being averaged, and for the next one.
    """
    target = settings.target_samples
    return buffers.open_samples < target and buffers.samples < (2 * target if overlap else target)
