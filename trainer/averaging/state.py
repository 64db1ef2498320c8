"""The training state that peers share: parameters and LAMB's averages.

What this changes in hivemind's `TrainingStateAverager`:
- a state handed out is always whole: upstream raises the step number before the delayed optimizer
  step has been taken, and a newcomer would start one update behind without knowing.
- a download tells whether it worked, and a state with non-finite numbers is refused.
- the learning rate is a function of the global step; upstream counts a scheduler up, never down.
- parameters may be averaged in small groups, too (`moshpit/swarm_grid.py`).
"""

import threading
import time
from collections.abc import Callable
from concurrent import futures
from typing import Any

import torch
from hivemind.optim.state_averager import TrainingStateAverager
from hivemind.utils import get_logger

from trainer.averaging.groups import StepwiseAverager
from trainer.averaging.moshpit.rounds import GridControl
from trainer.averaging.moshpit.swarm_grid import SwarmGrid

logger = get_logger(__name__)


class _Between(StepwiseAverager):
    """Stands between hivemind's two averager classes: sees what a download brought, and averages on the grid."""

    tensors_in_state: int
    grid: SwarmGrid | None

    def step(self, *args: Any, **kwargs: Any) -> Any:
        """See upstream."""
        control: GridControl | None = None
        if self.grid is not None:
            control = self.grid.schedule(self, kwargs["gather"], "state", super().step, **kwargs)
        return control if control is not None else super().step(*args, **kwargs)

    def load_state_from_peers(self, **kwargs: Any) -> tuple[Any, list[torch.Tensor]] | None:
        loaded = super().load_state_from_peers(**kwargs)
        if loaded is None:
            return None
        metadata, tensors = loaded
        if len(tensors) != self.tensors_in_state:
            logger.warning("refused a state that broke off")
            return None
        if not all(torch.isfinite(tensor).all() for tensor in tensors):
            logger.warning("refused a state with numbers that are not finite")
            return None
        self.downloaded = True
        return metadata, tensors


class SwarmStateAverager(TrainingStateAverager, _Between):
    """hivemind's state averager, with the changes above."""

    downloaded: bool

    def __init__(self, *, learning_rate: Callable[[int], float], grid: SwarmGrid | None = None, **kwargs: Any):
        self.learning_rate, self.grid = learning_rate, grid
        self.settled = threading.Event()  # set while parameters and step number belong together
        self.settled.set()
        super().__init__(**kwargs)
        self.tensors_in_state = len(super().get_current_state()[1])
        self._update_scheduler()

    def step(self, *args: Any, increment_epoch: bool = False, **kwargs: Any) -> Any:
        """See upstream."""
        if increment_epoch:
            self.settled.clear()
        return super().step(*args, increment_epoch=increment_epoch, **kwargs)

    def _do(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return super()._do(*args, **kwargs)
        finally:
            self.settled.set()

    def _update_scheduler(self) -> None:
        # upstream calls this at the moment the optimizer step is done, before the state round begins
        for group in self.optimizer.param_groups:
            group["lr"] = self.learning_rate(self.local_epoch)
        self.settled.set()

    def get_current_state(self) -> tuple[Any, list[torch.Tensor], list[Any]]:
        """Parameters and optimizer state of `local_epoch` (see upstream), a copy; waits for a step in flight.

        Raises:
            TimeoutError: steps follow each other so closely that there is no moment to copy.
        """
        deadline = time.monotonic() + self._allreduce_timeout
        while time.monotonic() < deadline:
            if not self.settled.wait(deadline - time.monotonic()):
                break
            step = self.local_epoch
            metadata, tensors, infos = super().get_current_state()
            copies = [tensor.clone() for tensor in tensors]  # sending takes longer than the next step
            if self.settled.is_set() and metadata["epoch"] == self.local_epoch == step:
                return metadata, copies, infos
        raise TimeoutError("no whole state to give out now")

    def load_state_from_peers(self, **kwargs: Any) -> bool:  # type: ignore[override]
        """Take over the newest state that a peer offers; returns whether one was taken."""
        self.downloaded = False
        try:
            super().load_state_from_peers(**kwargs)
        except (TimeoutError, futures.TimeoutError):  # two classes up to Python 3.10
            logger.warning("a state did not arrive in time")
        return self.downloaded
