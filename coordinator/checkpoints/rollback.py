"""Rolls the run back to an older checkpoint, when the model has diverged or when the organizer orders it."""

import contextlib
import math
import queue
from collections.abc import Callable
from pathlib import Path

from pydantic import BaseModel

from averaging.log.header import Header
from coordinator.checkpoints.checkpoint import (
    Checkpoint,
    CheckpointError,
    list_checkpoints,
    named_checkpoints,
    whole_checkpoint,
)
from coordinator.checkpoints.rollback_policy import (
    BAD_STEPS,
    RECENT_STEPS,
    has_exploded,
    is_bad,
    newest_good,
)
from coordinator.checkpoints.store import load_checkpoint
from coordinator.ledger.storage.database import LedgerError
from coordinator.replica import Replica
from coordinator.run_context import RunContext
from coordinator.state_folder import ROLLBACKS, read_small
from swarm.errors import StorageError, SwarmError
from swarm.files import write_file

WATCHED = BAD_STEPS + RECENT_STEPS  # newest global steps whose losses and gradients are compared


class Undone(BaseModel):
    """Global steps that rollbacks have undone, each as a first step and the one after the last."""

    steps: list[tuple[int, int]]


class Rollback:
    """Watches losses and gradients of global steps, and proposes rollbacks; not for several threads."""

    def __init__(
        self,
        context: RunContext,
        replica: Replica,
        orders: "queue.SimpleQueue[int]",
        went_back: Callable[[Path | None], None] = lambda checkpoint: None,
    ):
        """
        Args:
            orders: global steps; the organizer asks to go back to their checkpoints.
            went_back: is told of the newest rollback, again after a crash: the checkpoint of that state; None if it is
                not here any more.
        """
        self._context, self._replica, self._orders, self._went_back = context, replica, orders, went_back
        self._compared_since = replica.step  # global step since which training losses are compared
        self._proposed: tuple[Checkpoint, str] | None = None  # the older state, and the reason
        self._best = math.inf  # held-out loss, in nats
        self._file = context.folder / ROLLBACKS
        undone = read_small(self._file, Undone, "no list of undone steps; remove it, or restore it from a copy")
        # a state folder that was opened again with an older state takes those steps anew
        self._abandoned = [range(*one) for one in undone.steps if one[1] <= replica.step] if undone else []

    @property
    def is_proposed(self) -> bool:
        """Whether the run goes on from another state as soon as a quorum agrees."""
        return self._proposed is not None

    def checkpoints(self) -> list[Checkpoint]:
        """The checkpoints that no rollback has undone, oldest first."""
        return [one for one in list_checkpoints(self._context.checkpoints) if not self.is_abandoned(one.step)]

    def goals(self) -> frozenset[Path]:
        """The checkpoint that the run last went back to, and the one that is proposed; they have to stay."""
        steps = [one.start - 1 for one in self._abandoned[-1:]] + ([self._proposed[0].step] if self._proposed else [])
        return frozenset(path for step, path in named_checkpoints(self._context.checkpoints) if step in steps)

    def losses(self) -> list[float]:
        """The held-out losses, in nats, of the checkpoints that no rollback has undone."""
        return [one.state.eval_loss for one in self.checkpoints() if one.state.eval_loss is not None]

    def is_abandoned(self, step: int) -> bool:
        """Whether a rollback has undone the state of this global step."""
        return any(step in steps for steps in self._abandoned)

    def needs_evaluation(self, step: int) -> bool:
        """Whether losses or gradients since the last rollback are a reason to evaluate the model now."""
        since, ledger = max(self._compared_since, step - WATCHED), self._context.ledger
        reason = None
        if has_exploded([one.loss for one in ledger.steps(since=since)]):
            reason = "the training loss has risen"
        elif has_exploded([math.log(norm) if norm else -math.inf for norm in ledger.rounds.gradient_norms(since)]):
            reason = "the gradients have grown"
        if reason is None:
            return False
        self._compared_since = step  # one evaluation is enough
        self._context.say(f"global step {step}: {reason}; looking at the held-out text")
        return True

    def roll_back_if_bad(self, loss: float) -> bool:
        """Propose a rollback if this held-out loss (nats) is that of a diverged model; returns whether one is proposed.

        A checkpoint that turns out to be broken is skipped. If there is nothing to go back to, that is said, and the
        run goes on as it is.
        """
        with contextlib.suppress(LedgerError):
            evaluations = self._context.ledger.evaluations()
            self._best = min((one.loss for one in evaluations if not self.is_abandoned(one.step)), default=math.inf)
        if not is_bad(loss, self._best):
            return False
        if self._proposed is None:  # else a quorum has not agreed yet
            reason = f"The held-out loss has risen from {self._best:.2f} to {loss:.2f}"
            there = self.checkpoints()
            while (good := newest_good(there, self._best)) is not None:
                there.remove(good)
                try:
                    self._propose(good, reason)
                    return True
                except (CheckpointError, StorageError, SwarmError) as error:
                    may_pass = not isinstance(error, CheckpointError) or isinstance(error.__cause__, OSError)
                    if may_pass:
                        self._context.say(f"problem: {error}; the run goes on as it is")
                        return False
                    self._context.say(f"problem: {error}; the next older checkpoint is looked at")
            said = f"problem: {reason}, but there is no good checkpoint to go back to; the run goes on as it is"
            self._context.say(said)
        return self.is_proposed

    def follow_order(self) -> None:
        """Propose a rollback to the checkpoint that the organizer wants, if there is an order.

        Raises:
            CheckpointError, StorageError, SwarmError: nothing was changed.
        """
        if not self._orders.empty():
            wanted = whole_checkpoint(self._context.checkpoints, self._orders.get())  # it may have been removed since
            self._propose(wanted, "Ordered by the organizer")

    def _propose(self, checkpoint: Checkpoint, reason: str) -> None:
        self._replica.roll_back(load_checkpoint(checkpoint.path))
        self._proposed = checkpoint, reason

    def note_rollback(self, step: int, older: int) -> None:
        """The header of this global step has rolled the run back to the state of an older one."""
        reason, self._compared_since = "It was proposed earlier", step
        if self._proposed is not None and self._proposed[0].step == older:  # else that order still stands
            reason, self._proposed = self._proposed[1], None
        if not self._is_noted(step):
            self._undo(older, step)
        self._context.say(f"{reason}: the swarm goes back to the state of global step {older}, as global step {step}")

    def note_header(self, rollback: Header) -> None:
        """Mark a rollback in the log that was applied before a restart, or was caught up past."""
        if self._is_noted(rollback.step):
            return
        older = self._replica.target_of(rollback)
        self._undo(older, rollback.step)
        if older is None:
            self._context.say(
                f"attention: while the coordinator was away, the run went back to an older state, as global step "
                f"{rollback.step}; remove the checkpoints of lower steps that are later than that state from "
                f"{self._context.checkpoints}, or they count as good"
            )

    def _is_noted(self, step: int) -> bool:
        return any(one.stop == step for one in self._abandoned)

    def _undo(self, older: int | None, step: int) -> None:
        is_newest = all(one.stop < step for one in self._abandoned)  # the disk gets lost headers in any order
        self._abandoned.append(range(step if older is None else older + 1, step))
        if is_newest and older is not None:  # before it is written: better twice after a crash than never
            there = dict(named_checkpoints(self._context.checkpoints))
            self._went_back(there.get(older))
        with contextlib.suppress(StorageError):  # the folder's disk is full; the run goes on
            undone = Undone(steps=[(one.start, one.stop) for one in self._abandoned])
            write_file(self._file, undone.model_dump_json() + "\n")
