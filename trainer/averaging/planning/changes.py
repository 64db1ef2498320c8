"""When roles change: not for a small gain, for the next step may take it back, and a volunteer would be confused."""

import math

WORTH_A_CHANGE = 0.1  # part of a global step's time that new roles must save


def settled(held_seconds: float, best_seconds: float) -> bool:
    """Whether peers keep the roles that they have.

    Speeds that are measured again and again go up and down by some percent. With this margin a choice that is nearly as
    good as another one lasts until the other one has become better by a tenth, and so does the other one then.

    Args:
        held_seconds: of a global step with the roles that peers have; infinite if no round would end with them.
        best_seconds: with the best ones.
    """
    return math.isfinite(held_seconds) and best_seconds > (1.0 - WORTH_A_CHANGE) * held_seconds
