"""The coordinator's own peer: it computes no gradients, convenes the rounds and holds every state."""

import contextlib
import queue
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import torch
from hivemind.dht import DHT

from averaging.log.disk import LOG_FILE
from averaging.log.entry_file import Place, entries_after, missing_in, newest_step
from averaging.log.header import Entry, Header, HeaderKind
from averaging.log.state import Layout, State
from averaging.optimizer import CollaborativeOptimizer
from averaging.shell.audit import Comparison, Verdict
from averaging.shell.connection import Membership
from coordinator.access.decisions import AccessControl
from coordinator.checkpoints.checkpoint import CheckpointError
from coordinator.checkpoints.store import LoadedCheckpoint
from coordinator.run_context import RunContext
from coordinator.state_folder import LOG
from swarm import clock
from swarm.errors import SwarmError
from swarm.files import storage_errors
from swarm.identity import Identity
from swarm.run_file.fingerprint import OPTIMIZER_VERSION
from trainer.model import PretrainingModel

POLL = 0.2  # seconds
T = TypeVar("T")


@dataclass(frozen=True)
class Snapshot:
    """The state after `step` global steps: parameters by name, and the optimizer's."""

    step: int
    model_state: dict[str, torch.Tensor]
    optimizer_state: dict[str, Any]


@dataclass(frozen=True)
class Applied:
    """A header that was applied here."""

    header: Header
    gradient_norm: float | None  # of an update
    seconds: float | None  # of its round; None if this coordinator was not a member


class Replica:
    """Follows the run, and convenes its rounds."""

    def __init__(
        self,
        context: RunContext,
        dht: DHT,
        identity: Identity,
        model: PretrainingModel,
        newest: LoadedCheckpoint | None,
        access: AccessControl,
    ):
        """Where the state folder has no log yet, the run begins with the newest checkpoint, or else with the model."""
        folder = context.folder / LOG
        self.stepped_at = clock.now()  # unix time, seconds: when the newest global step was taken, or this began
        self.has_stopped = threading.Event()
        self._file = folder / LOG_FILE
        self._applied: queue.SimpleQueue[Applied] = queue.SimpleQueue()
        self._found: queue.SimpleQueue[Verdict | Comparison] = queue.SimpleQueue()
        self._is_made = threading.Event()
        self._restored: queue.SimpleQueue[tuple[State, int]] = queue.SimpleQueue()  # see `restored`
        membership = Membership(
            context.run,
            context.fingerprint.digest,
            dht,
            identity,
            access.gate,
            authority=access.authority,
            folder=folder,
        )
        self.optimizer = CollaborativeOptimizer(
            membership,
            list(model.named_parameters()),
            self._apply,
            first=None if newest is None else lambda layout: state_of(newest, layout),
            audited=self._found.put,
        )
        self._is_made.set()

    def _apply(self, entry: Entry, seconds: float | None, state: State) -> None:
        """Called by another thread, perhaps before `self.optimizer` is set."""
        self.stepped_at = clock.now()
        self._applied.put(Applied(entry.header, state.gradient_norm, seconds))
        if entry.header.kind is HeaderKind.ROLLBACK:
            self._is_made.wait()
            self._restored.put((state, self.optimizer.target_of(entry.header)))

    @property
    def step(self) -> int:
        """Global steps that were taken."""
        return max(0, self.optimizer.step)

    @property
    def samples_gathered(self) -> int:
        """Samples of all peers towards the next global step, as they report them."""
        return self.optimizer.progress.gathered

    def applied(self) -> list[Applied]:
        """The headers applied since the last call."""
        return _drained(self._applied)

    def found(self) -> list[Verdict | Comparison]:
        """What was found out about members since the last call."""
        return _drained(self._found)

    def entries_after(self, place: Place | None, most: int) -> tuple[list[Entry], Place | None]:
        """At most `most` headers on the disk after a place, of whatever chain, and the place where they end.

        Raises:
            StorageError: the disk cannot be read.
        """
        return entries_after(self._file, place, most, self._request_missing)

    def _request_missing(self) -> None:
        if gaps := missing_in(self._file):
            self.optimizer.lacks(gaps)

    def follow(self, stop: threading.Event) -> None:
        """Take part until `stop` is set.

        Raises:
            SwarmError: this peer cannot go on.
        """
        try:
            while not stop.wait(POLL):
                self.optimizer.check()
        finally:
            self.optimizer.shutdown()  # what is saved now is the newest state
            self.has_stopped.set()

    def roll_back(self, older: LoadedCheckpoint) -> None:
        """Propose that the run goes on from this older state; `restored` tells when a quorum has agreed.

        Raises:
            CheckpointError: it does not fit the model.
            SwarmError: the run averages in small groups, which cannot be rolled back.
        """
        self.optimizer.roll_back(state_of(older, self.optimizer.layout))

    def target_of(self, rollback: Header) -> int | None:
        """The step of the older state; None if its snapshot is not here any longer."""
        with contextlib.suppress(ValueError):
            return self.optimizer.target_of(rollback)
        return None

    @property
    def is_restored(self) -> bool:
        """Whether `restored` has something to tell."""
        return not self._restored.empty()

    def restored(self) -> tuple[Snapshot, int] | None:
        """The state after a rollback that was not told yet, and the step of the older one to which that goes back."""
        if self._restored.empty():
            return None
        state, older = self._restored.get()
        return self._snapshot_of(state), older

    def snapshot(self) -> Snapshot:
        """The newest whole state.

        Raises:
            SwarmError: the replica has stopped before it had one.
        """
        while (state := self.optimizer.state) is None:
            self.has_stopped.wait(POLL)
            if self.has_stopped.is_set():
                raise SwarmError("there is no state of the run yet, so none can be saved")
        return self._snapshot_of(state)

    def _snapshot_of(self, state: State) -> Snapshot:
        layout = self.optimizer.layout
        model_state = dict(zip(layout.names, layout.views(state.parameters), strict=True))
        return Snapshot(state.step, model_state, saved(state))


def set_older_log_aside(folder: Path, newest: LoadedCheckpoint) -> Path | None:
    """Move away a log that ends before a checkpoint, so that the run begins with that; returns where the log is now.

    Raises:
        StorageError: the log cannot be read or moved.
    """
    step = newest_step(folder / LOG_FILE)
    if step is None or step >= newest.trainer_state.step:
        return None
    aside = folder.with_name(f"{folder.name}-{clock.now():.0f}")
    with storage_errors(folder):
        folder.rename(aside)
    return aside


def saved(state: State) -> dict[str, Any]:
    """The optimizer's state, as a checkpoint keeps it."""
    return {"version": OPTIMIZER_VERSION, "step": state.step, "updates": state.updates, "moments": list(state.moments)}


def state_of(checkpoint: LoadedCheckpoint, layout: Layout) -> State:
    """The state that a checkpoint was made of.

    Raises:
        CheckpointError: it does not fit the model.
    """
    kept = checkpoint.optimizer_state
    try:
        tensors = [checkpoint.model_state[name] for name in layout.names]
        if tuple(tuple(one.shape) for one in tensors) != layout.shapes:
            raise ValueError("its tensors have other shapes")
        mean, square = (one.to(torch.float32) for one in kept["moments"])
        if (tuple(mean.shape), tuple(square.shape)) != tuple((size,) for size in layout.moment_sizes):
            raise ValueError("its moments have other sizes")
        return State(checkpoint.trainer_state.step, int(kept["updates"]), layout.flat(tensors), (mean, square))
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(
            f"checkpoint-{checkpoint.trainer_state.step} does not fit the run ({error!r}); choose another state folder "
            "with --state FOLDER, or undo the change"
        ) from error


def _drained(given: "queue.SimpleQueue[T]") -> list[T]:
    found = []
    while not given.empty():
        found.append(given.get())
    return found
