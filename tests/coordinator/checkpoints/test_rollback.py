import math
import random
from pathlib import Path

import pytest

from coordinator.checkpoints.checkpoint import Checkpoint, TrainerState
from coordinator.checkpoints.rollback_policy import BAD_STEPS, ENOUGH_STEPS, has_exploded, is_bad, newest_good

FALLING = [9.0 * 0.97**step + 2.0 for step in range(60)]
JUMP = [8.0] * BAD_STEPS


def test_a_loss_that_jumps_and_stays_has_exploded() -> None:
    assert has_exploded([*FALLING, *JUMP])
    assert has_exploded([*FALLING, *[math.inf] * BAD_STEPS])
    assert has_exploded([*FALLING, *[math.nan] * BAD_STEPS])


@pytest.mark.parametrize(
    "losses",
    [
        [],
        JUMP,
        FALLING,
        [*FALLING, *JUMP[1:]],  # not long enough
        [*FALLING, 8.0, 3.5, 8.0],  # not in a row
        [*FALLING[:ENOUGH_STEPS], *[50.0] * (BAD_STEPS - 1)],
        [9.0] * 5 + [50.0] * BAD_STEPS,  # what is usual is not known yet
        [*FALLING[-20:], *[FALLING[-1] + 0.5] * BAD_STEPS],  # a little worse: other text
    ],
)
def test_a_loss_that_is_in_order_has_not(losses: list[float]) -> None:
    assert not has_exploded(losses)


def test_noise_is_no_explosion() -> None:
    draw = random.Random(1)
    losses = [5.0 + draw.gauss(0.0, 0.5) for _ in range(2000)]
    assert not any(has_exploded(losses[max(0, end - 60) : end]) for end in range(len(losses)))


def test_the_newest_checkpoint_that_is_in_order_is_chosen() -> None:
    losses = {10: 5.0, 20: 3.0, 30: 3.9, 40: None, 50: 4.1, 60: math.nan}
    checkpoints = [Checkpoint(Path(str(step)), step, state(step, loss)) for step, loss in losses.items()]
    chosen = newest_good(checkpoints, best=3.0)
    assert chosen is not None and chosen.step == 30
    assert newest_good(checkpoints[3:], best=3.0) is None


def state(step: int, loss: float | None) -> TrainerState:
    return TrainerState("river", step, 64 * step, loss, "2026-01-01T00:00:00+00:00", "0123", "sahaj")


@pytest.mark.parametrize(
    ("loss", "best", "bad"),
    [(3.5, 3.0, False), (2.5, 3.0, False), (4.1, 3.0, True), (math.nan, 3.0, True), (9.0, math.inf, False)],
)
def test_a_held_out_loss_far_above_the_best_is_bad(loss: float, best: float, bad: bool) -> None:
    assert is_bad(loss, best) is bad
