"""The coordinator's own peer of a run that is a log: it computes nothing, convenes the rounds and has every state."""

import queue
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from hivemind.dht import DHT

from averaging.connection import Membership
from averaging.log.disk import LOG_FILE
from averaging.log.header import Entry, Kind
from averaging.log.log_file import LogFile
from averaging.log.state import Layout, State
from averaging.optimizer import CollaborativeOptimizer
from coordinator.checkpoints import CheckpointError, LoadedCheckpoint
from coordinator.replica import Snapshot
from swarm import clock
from swarm.durable import storage_errors
from swarm.errors import SwarmError
from swarm.fingerprint import OPTIMIZER_VERSION, Fingerprint
from swarm.gate import Gate
from swarm.identity import Identity
from swarm.passes import Authority
from swarm.run_file import RunFile
from trainer.model import PretrainingModel

POLL = 0.2  # seconds
ROLLING_BACK = 120.0  # seconds that others may take to agree


@dataclass(frozen=True)
class Committed:
    """A header that was applied, or one that this coordinator had missed."""

    entry: Entry
    gradient_norm: float | None = None
    seconds: float | None = None  # since the header before it


class RunLog:
    """Follows the run, and leads it."""

    def __init__(
        self,
        run: RunFile,
        ours: Fingerprint,
        dht: DHT,
        identity: Identity,
        model: PretrainingModel,
        newest: LoadedCheckpoint | None,
        gate: Gate | None,
        authority: Authority | None,
        folder: Path,
    ):
        """`folder`: of the log. Where there is none yet, the run begins with the newest checkpoint, or the model."""
        self.stepped_at = clock.now()  # unix time, seconds: when the newest global step was taken, or this began
        self.has_stopped = threading.Event()
        self._committed: queue.SimpleQueue[Committed] = queue.SimpleQueue()
        self._applied_at: float | None = None
        self._rolled_back, self._is_made = threading.Event(), threading.Event()
        self._restored: State | None = None  # the state after the newest rollback
        membership = Membership(
            run,
            ours.digest,
            dht,
            identity,
            "coordinator",
            gate,
            is_coordinator=True,
            authority=authority,
            folder=folder,
        )
        self.optimizer = CollaborativeOptimizer(
            membership,
            list(model.named_parameters()),
            self._apply,
            self._miss,
            first=None if newest is None else lambda layout: state_of(newest, layout),
        )
        self._is_made.set()

    def _apply(self, entry: Entry) -> None:
        """In another thread, perhaps before the optimizer is made."""
        self._is_made.wait()
        now = clock.now()
        seconds = None if self._applied_at is None else now - self._applied_at
        self.stepped_at = self._applied_at = now
        norm = self.optimizer.gradient_norm if entry.header.kind is Kind.UPDATE else None
        self._committed.put(Committed(entry, norm, seconds))
        if entry.header.kind is Kind.ROLLBACK:
            self._restored = self.optimizer.state
            self._rolled_back.set()

    def _miss(self, entries: Sequence[Entry]) -> None:
        """In another thread."""
        for entry in entries:
            self._committed.put(Committed(entry))

    @property
    def step(self) -> int:
        """Global steps that were taken."""
        return max(0, self.optimizer.step)

    settled_step = step  # nothing that is applied is undone

    @property
    def samples_gathered(self) -> int:
        """Samples of all peers towards the next global step, as they report them."""
        return self.optimizer.progress.gathered

    def committed(self) -> list[Committed]:
        """The headers since this was last asked."""
        found = []
        while not self._committed.empty():
            found.append(self._committed.get())
        return found

    def follow(self, stop: threading.Event, say: Callable[[str], None]) -> None:
        """Take part until `stop` is set.

        Raises:
            SwarmError: this peer can take part no longer.
        """
        try:
            while not stop.wait(POLL):
                self.optimizer.check()
        finally:
            self.optimizer.shutdown()  # what is saved now is the newest state
            self.has_stopped.set()

    def go_back(self, older: LoadedCheckpoint, choose_step: Callable[[int], int]) -> int:
        """Have the run go on from this older state; returns the step of the header that says so.

        Raises:
            CheckpointError: it does not fit the model.
            SwarmError: the others have not agreed in time; they may do so later.
        """
        self._rolled_back.clear()
        self.optimizer.roll_back(state_of(older, self.optimizer.layout))
        until = clock.now() + ROLLING_BACK
        while not self._rolled_back.wait(POLL):
            if clock.now() >= until or self.has_stopped.is_set():
                raise SwarmError(
                    f"no quorum has agreed in {ROLLING_BACK:.0f} s to go back; the run does so once there is one"
                )
        assert self._restored is not None
        return self._restored.step

    def snapshot(self) -> Snapshot:
        """The newest whole state."""
        while (state := self.optimizer.state) is None:
            self.has_stopped.wait(POLL)
            if self.has_stopped.is_set():
                raise SwarmError("there is no state of the run yet, so none can be saved")
        return self._snapshot_of(state)

    def restored(self) -> Snapshot:
        """The state that the run went back to last; it may have gone on since."""
        assert self._restored is not None
        return self._snapshot_of(self._restored)

    def _snapshot_of(self, state: State) -> Snapshot:
        layout = self.optimizer.layout
        model_state = dict(zip(layout.names, layout.views(state.parameters), strict=True))
        return Snapshot(state.step, model_state, saved(state))


def set_older_log_aside(folder: Path, newest: LoadedCheckpoint) -> Path | None:
    """Move a log away that ends before a checkpoint, which then begins the run; returns where it is now.

    Raises:
        StorageError: the log cannot be read or moved.
    """
    entries = LogFile(folder / LOG_FILE).load()
    if not entries or entries[-1].header.step >= newest.trainer_state.step:
        return None
    aside = folder.with_name(f"{folder.name}-{clock.now():.0f}")
    with storage_errors(folder):
        folder.rename(aside)
    return aside


def saved(state: State) -> dict[str, Any]:
    """What a checkpoint keeps beside the parameters."""
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
        moments = tuple(one.to(torch.float32) for one in kept["moments"])
        if any(one.shape != (layout.size,) for one in moments):
            raise ValueError("its moments have other sizes")
        return State(checkpoint.trainer_state.step, int(kept["updates"]), layout.flat(tensors), moments)
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(
            f"checkpoint-{checkpoint.trainer_state.step} does not fit the run ({error!r}); choose another state folder "
            "with --state FOLDER, or undo the change"
        ) from error
