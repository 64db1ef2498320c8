"""Calling the swarm back to an older state: by itself when the model has gone astray, or on the organizer's order."""

import math
import queue
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from coordinator.checkpoints import Checkpoint, list_checkpoints, load_checkpoint
from coordinator.ledger import Ledger
from coordinator.notice_board import NoticeBoard
from coordinator.replica import Replica
from coordinator.rollback import (
    BAD_STEPS,
    RECENT_STEPS,
    CannotGoBack,
    Pace,
    has_exploded,
    is_bad,
    newest_good,
    step_to_go_on_at,
)
from coordinator.run_log import RunLog
from trainer.averaging import RoundFailed

WATCHED = BAD_STEPS + RECENT_STEPS  # newest global steps whose losses and gradients are compared


@dataclass(frozen=True)
class Reins:
    """What it takes to call the swarm back."""

    replica: Replica | RunLog
    board: NoticeBoard | None  # on which peers are called; none where no passes are given
    orders: "queue.SimpleQueue[int]"  # global steps whose checkpoint the organizer wants to go back to
    ledger: Ledger
    folder: Path  # of checkpoints
    total_steps: int
    say: Callable[[str], None]


class Recall:
    """Watches losses and gradients of global steps; not for several threads."""

    def __init__(self, reins: Reins):
        self._reins = reins
        self._pace = Pace()
        self._went_on_at = reins.replica.step  # global step since which training losses are compared
        self._left_behind: list[range] = []  # global steps after the state that the swarm went back to

    def reached(self, step: int) -> None:
        """The swarm is at this global step now."""
        self._pace.reached(step, time.monotonic())

    def is_left_behind(self, step: int) -> bool:
        """Whether the swarm has gone back from what it was at this global step."""
        return any(step in steps for steps in self._left_behind)

    def is_worried(self, step: int) -> bool:
        """Whether losses or gradients since the swarm last went back are a reason to evaluate the model now."""
        since, ledger = max(self._went_on_at, step - WATCHED), self._reins.ledger
        why = None
        if has_exploded([one.loss for one in ledger.steps(since=since)]):
            why = "the training loss has risen"
        elif has_exploded([math.log(norm) if norm else -math.inf for norm in ledger.audit.gradient_norms(since)]):
            why = "the gradients have grown"
        if why is None:
            return False
        self._went_on_at = step  # one look is enough
        self._reins.say(f"global step {step}: {why}; looking at the held-out text")
        return True

    def go_back_if_bad(self, loss: float) -> bool:
        """Call the swarm back if a held-out loss is that of a model that has gone astray; returns whether it was.

        Raises:
            CannotGoBack, RoundFailed, CheckpointError: nothing was changed.
        """
        best = min((one.loss for one in self._reins.ledger.evaluations()), default=math.inf)
        if not is_bad(loss, best):
            return False
        why = f"The held-out loss has risen from {best:.2f} to {loss:.2f}"
        self._go_back(newest_good(list_checkpoints(self._reins.folder), best), why)
        return True

    def follow_order(self) -> bool:
        """Go back to the checkpoint that the organizer wants, if there is an order; returns whether there was.

        Raises:
            CannotGoBack, CheckpointError: nothing was changed.
            RoundFailed: nothing was changed, and the order stands.
        """
        if self._reins.orders.empty():
            return False
        wanted = self._reins.orders.get()
        there = [one for one in list_checkpoints(self._reins.folder) if one.step == wanted]
        try:
            self._go_back(there[0] if there else None, "The organizer wants it")
        except RoundFailed:
            self._reins.orders.put(wanted)
            raise
        return True

    def _go_back(self, checkpoint: Checkpoint | None, why: str) -> None:
        board, total = self._reins.board, self._reins.total_steps
        if checkpoint is None:
            raise CannotGoBack(f"{why}, but there is no good checkpoint to go back to")
        if board is None and not isinstance(self._reins.replica, RunLog):
            raise CannotGoBack(
                f"{why}, but in a run that gives no passes nobody can be called back; stop all peers, remove the "
                f"checkpoints after {checkpoint.path}, and start the coordinator again"
            )

        def call_everybody(newest: int) -> int:
            assert board is not None
            step = step_to_go_on_at(newest, self._pace.step_seconds)
            if step >= total:
                raise CannotGoBack(f"{why}, but the run is nearly over; use {checkpoint.path}")
            board.restored(step)  # first: a step that nobody is at does no harm
            return step

        step = self._reins.replica.go_back(load_checkpoint(checkpoint.path), call_everybody)
        self._went_on_at = step
        self._left_behind.append(range(checkpoint.step + 1, step))
        self._reins.say(
            f"{why}: the swarm goes back to the state of global step {checkpoint.step}, as global step {step}"
        )
