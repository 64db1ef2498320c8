"""Calling the swarm back to an older state: by itself when the model has gone astray, or on the organizer's order."""

import math
import queue
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from coordinator.checkpoints.rollback_policy import (
    BAD_STEPS,
    RECENT_STEPS,
    CannotGoBack,
    has_exploded,
    is_bad,
    newest_good,
)
from coordinator.checkpoints.store import Checkpoint, list_checkpoints, load_checkpoint
from coordinator.ledger.ledger import Ledger
from coordinator.replica import RunLog

WATCHED = BAD_STEPS + RECENT_STEPS  # newest global steps whose losses and gradients are compared


@dataclass(frozen=True)
class Reins:
    """What it takes to call the swarm back."""

    log: RunLog
    orders: "queue.SimpleQueue[int]"  # global steps whose checkpoint the organizer wants to go back to
    ledger: Ledger
    folder: Path  # of checkpoints
    say: Callable[[str], None]


class Recall:
    """Watches losses and gradients of global steps; not for several threads."""

    def __init__(self, reins: Reins):
        self._reins = reins
        self._went_on_at = reins.log.step  # global step since which training losses are compared
        self._wanted: tuple[int, str] | None = None  # step of the state that was ordered back, and why
        self._left_behind: list[range] = []  # global steps after the state that the swarm went back to

    def is_left_behind(self, step: int) -> bool:
        """Whether the swarm has gone back from what it was at this global step."""
        return any(step in steps for steps in self._left_behind)

    def is_worried(self, step: int) -> bool:
        """Whether losses or gradients since the swarm last went back are a reason to evaluate the model now."""
        since, ledger = max(self._went_on_at, step - WATCHED), self._reins.ledger
        why = None
        if has_exploded([one.loss for one in ledger.steps(since=since)]):
            why = "the training loss has risen"
        elif has_exploded([math.log(norm) if norm else -math.inf for norm in ledger.rounds.gradient_norms(since)]):
            why = "the gradients have grown"
        if why is None:
            return False
        self._went_on_at = step  # one look is enough
        self._reins.say(f"global step {step}: {why}; looking at the held-out text")
        return True

    def go_back_if_bad(self, loss: float) -> bool:
        """Call the swarm back if a held-out loss is that of a model that has gone astray; returns whether it was.

        Raises:
            CannotGoBack, CheckpointError, StorageError, SwarmError: nothing was changed.
        """
        best = min((one.loss for one in self._reins.ledger.evaluations()), default=math.inf)
        if not is_bad(loss, best):
            return False
        if self._wanted is None:  # else it was called, and a quorum has not agreed yet
            why = f"The held-out loss has risen from {best:.2f} to {loss:.2f}"
            self._call_back(newest_good(list_checkpoints(self._reins.folder), best), why)
        return True

    def follow_order(self) -> None:
        """Call the swarm back to the checkpoint that the organizer wants, if there is an order.

        Raises:
            CannotGoBack, CheckpointError, StorageError, SwarmError: nothing was changed.
        """
        if not self._reins.orders.empty():
            wanted = self._reins.orders.get()
            there = [one for one in list_checkpoints(self._reins.folder) if one.step == wanted]
            self._call_back(there[0] if there else None, "The organizer wants it")

    def _call_back(self, checkpoint: Checkpoint | None, why: str) -> None:
        if checkpoint is None:
            raise CannotGoBack(f"{why}, but there is no good checkpoint to go back to")
        self._reins.log.roll_back(load_checkpoint(checkpoint.path))
        self._wanted = checkpoint.step, why

    def went_back(self, step: int) -> None:
        """The swarm has gone back, which is this global step."""
        older, why = self._wanted or (step - 1, "It was decided before this coordinator began")
        self._wanted, self._went_on_at = None, step
        self._left_behind.append(range(older + 1, step))
        self._reins.say(f"{why}: the swarm goes back to the state of global step {older}, as global step {step}")
