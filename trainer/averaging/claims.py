"""What to believe of the others' progress: one peer's word is not enough where there are several."""

import itertools
import math
from collections.abc import Sequence

FASTEST_PEER = 1e6  # samples per second; a hundred times what the best accelerator computes
SPEED_SLACK = 3.0  # how much faster than it says a peer may have been in the last global step
HEAVIEST = 4.0  # target batches that one peer may weigh in the mean of a global step, whatever it computed
TIME_SLACK = 30.0  # seconds that a global step may have lasted before this peer heard of it


def believed_step(claims: Sequence[int]) -> int:
    """The newest global step among `claims` that another peer has reached, or is one step short of.

    A step that nobody else is near to is a mistake or a lie, and whoever followed it would wait for a state that
    does not exist. A lone claim has to be believed: it may be the only peer that holds the state.

    Args:
        claims: the global steps that peers say they are at; at least one.
    """
    if len(claims) == 1:
        return claims[0]
    ordered = sorted(claims, reverse=True)
    for step, next_lower in itertools.pairwise(ordered):
        if next_lower >= step - 1:
            return step
    return ordered[-1]


def newest_believed(claims: Sequence[int], own: int) -> int:
    """The newest global step that there is, for a peer that is at `own`: what it has reached itself is no mere claim.

    One peer that is far behind makes nobody else a liar, and a step beside our own is believed of a single peer.

    Args:
        claims: of the others; none: there is nobody to believe.
    """
    return max(believed_step(claims), own, *(step for step in claims if is_beside(step, own))) if claims else 0


def is_beside(step: int, own: int) -> bool:
    """Whether a peer at `step` may be in one group with a peer at `own`; the slower one learns that it is behind."""
    return abs(step - own) <= 1


def believed_weight(claim: float, heaviest: float) -> float:
    """What a peer weighs in the mean: its samples, up to `heaviest`.

    A fast peer that had to wait for a group may have computed more; then it weighs a little less than it could.

    Raises:
        ValueError: the claim is no weight.
    """
    if not 0.0 <= claim < math.inf:
        raise ValueError(f"{claim} is no weight in a mean")
    return min(claim, heaviest)


def is_plausible(step: int, samples_per_second: float, time: float, believed: int) -> bool:
    """Whether a peer's progress, told at `time`, may be counted."""
    return step <= believed and samples_per_second <= FASTEST_PEER and math.isfinite(time)


def believed_samples(claim: int, samples_per_second: float, step_seconds: float) -> int:
    """As many of the samples that a peer claims for a global step as it can have computed at the speed it claims.

    Args:
        step_seconds: how long this peer has known of the step; infinite where it may be older.
    """
    possible = SPEED_SLACK * (samples_per_second + 1.0) * (step_seconds + TIME_SLACK)
    return int(min(claim, possible))
