"""The coordinator's own copy of the training state: it computes nothing and is always up to date.

It takes part in every round with a weight of zero. So it receives the averaged gradient and takes
the same LAMB step as everybody, it reduces parts for peers that accept no connections, and it has
the newest state to give when no trainer can.
"""

import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from hivemind.dht import DHT

from coordinator.checkpoints import LoadedCheckpoint, restore_model
from swarm import clock
from swarm.gate import Gate
from swarm.identity import Identity
from swarm.run_file import RunFile
from trainer.averaging import RoundReport, SwarmOptimizer, make_optimizer
from trainer.model import PretrainingModel, parameter_groups

LEAVING = 15.0  # seconds that a round may take to end once this copy is told to stop; most take less
POLL = 0.2  # seconds between two looks at the swarm's progress; a round waits for us at most this long


@dataclass(frozen=True)
class Snapshot:
    """The state after `step` global steps: parameters by name, and LAMB's state."""

    step: int
    model_state: dict[str, torch.Tensor]
    optimizer_state: dict[str, Any]


class Replica:
    """Follows the swarm's global steps in its own copy of model and optimizer."""

    def __init__(
        self,
        run: RunFile,
        dht: DHT,
        identity: Identity,
        model: PretrainingModel,
        newest: LoadedCheckpoint | None,
        gate: Gate | None = None,
    ):
        self._model = model
        self._turn = threading.Lock()  # of whoever changes the state
        self.stepped_at = clock.now()  # unix time, seconds: when the newest global step was taken, or this began
        self._ended: queue.SimpleQueue[RoundReport] = queue.SimpleQueue()
        self._known_until = 0
        self.has_stopped = threading.Event()  # `follow` is over, and has told of all rounds that ended
        if newest is not None:
            restore_model(model, newest.model_state)
        self._names = {id(parameter): name for name, parameter in model.named_parameters()}
        self.optimizer: SwarmOptimizer = make_optimizer(
            run, dht, identity, parameter_groups(model, run.optimizer.weight_decay), holds_state=True, gate=gate
        )
        if newest is not None:
            self.optimizer.adopt(newest.trainer_state.step, newest.optimizer_state)
        self._told_step = self.step

    @property
    def step(self) -> int:
        """Global steps that this copy has taken."""
        return self.optimizer.local_epoch

    @property
    def settled_step(self) -> int:
        """The same without a step whose round is still open: if that fails, it is undone."""
        return self.optimizer.settled_step

    @property
    def samples_gathered(self) -> int:
        """Samples of all peers towards the next global step, as they report them."""
        return int(self.optimizer.tracker.global_progress.samples_accumulated)

    @property
    def known_until(self) -> int:
        """Global steps of which this copy knows how their rounds ended; `ended_rounds` has told of them."""
        return self._known_until

    def ended_rounds(self) -> list[RoundReport]:
        """The rounds in which this copy took part and that ended since this was last asked."""
        ended = []
        while not self._ended.empty():
            ended.append(self._ended.get())
        return ended

    def follow(self, stop: threading.Event, say: Callable[[str], None]) -> None:
        """Keep up with the swarm until `stop` is set; tells of rounds that failed."""
        threading.Thread(target=self._hurry_after, args=(stop,), name="hurry", daemon=True).start()
        with self._turn:
            self.optimizer.load_state_from_peers()
        while not stop.wait(POLL):
            with self._turn:
                self.optimizer.poll()
            self._take_in_rounds(say)
        self._take_in_rounds(say)
        self.has_stopped.set()

    def _hurry_after(self, stop: threading.Event) -> None:
        stop.wait()
        while not self.has_stopped.wait(LEAVING):
            self.optimizer.hurry()

    def _take_in_rounds(self, say: Callable[[str], None]) -> None:
        if self.step != self._told_step:
            self._told_step, self.stepped_at = self.step, clock.now()
        settled = self.optimizer.settled_step  # first: what ends meanwhile is told the next time
        for report in self.optimizer.ended_rounds():
            self._ended.put(report)
            if report.problem:
                say(report.describe_failure())
        self._known_until = settled

    def go_back(self, older: LoadedCheckpoint, choose_step: Callable[[int], int]) -> int:
        """Have this older state under a newer global step; returns that step.

        Args:
            choose_step: is given the swarm's newest global step.

        Raises:
            CheckpointError: it does not fit the model.
            RoundFailed: a round of averaging does not end; nothing was changed.
        """
        with self._turn:
            return self.optimizer.go_on_from(
                choose_step, lambda: restore_model(self._model, older.model_state), older.optimizer_state
            )

    def restored(self) -> Snapshot:
        """The state that the swarm went back to a moment ago."""
        return self.snapshot()

    def snapshot(self) -> Snapshot:
        """A copy of the newest whole state; parameters, LAMB's state and step number belong together."""
        averager = self.optimizer.state_averager
        while True:
            settled = averager.settled.wait(POLL)
            with averager.lock_optimizer, averager.lock_averaged_tensors, torch.no_grad():
                step = averager.local_epoch
                held = [parameter for group in averager.optimizer.param_groups for parameter in group["params"]]
                model_state = {
                    self._names[id(main)]: own.detach().clone()
                    for main, own in zip(averager.main_parameters, held, strict=True)
                }
                optimizer_state = _copied(averager.optimizer.state_dict())
            if settled and averager.settled.is_set() and averager.local_epoch == step:
                return Snapshot(step, model_state, optimizer_state)
            time.sleep(POLL)


def _copied(value: Any) -> Any:
    """A deep copy of an optimizer's state: tensors, dicts, lists and plain values."""
    if isinstance(value, torch.Tensor):
        return value.detach().clone()
    if isinstance(value, dict):
        return {key: _copied(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_copied(item) for item in value)
    return value
