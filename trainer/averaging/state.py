"""The training state that peers share: parameters and the optimizer's statistics.

What this changes in hivemind's `TrainingStateAverager`:
- a state handed out is always whole: upstream raises the step number before the delayed optimizer
  step has been taken, and a newcomer would start one update behind without knowing.
- a download tells whether it worked, and brings tensors and a global step, which somebody else has to believe. Upstream
  takes over the settings of the optimizer with it, and any step.
- the learning rate is a function of the global step; upstream counts a scheduler up, never down.
- parameters may be averaged in small groups, too (`moshpit/swarm_grid.py`), and move no farther than copies of honest
  peers are apart (`copies.py`).
"""

import threading
import time
from collections.abc import Callable
from concurrent import futures
from typing import Any

import torch
from hivemind.optim.state_averager import TrainingStateAverager
from hivemind.utils import get_logger, nested_flatten

from trainer.averaging.copies import Copies, Strides, parameters_of
from trainer.averaging.downloads import Wanted
from trainer.averaging.groups import StepwiseAverager
from trainer.averaging.moshpit.rounds import GridControl
from trainer.averaging.moshpit.swarm_grid import SwarmGrid

logger = get_logger(__name__)

WEIGHT = 1.0  # of each peer where parameters are averaged


class _Between(StepwiseAverager):
    """Stands between hivemind's two averager classes: averages on the grid."""

    grid: SwarmGrid | None

    def step(self, *args: Any, **kwargs: Any) -> Any:
        """See upstream."""
        control: GridControl | None = None
        if self.grid is not None:
            control = self.grid.schedule(self, kwargs["gather"], "state", super().step, **kwargs)
        return control if control is not None else super().step(*args, **kwargs)


class SwarmStateAverager(TrainingStateAverager, _Between):
    """hivemind's state averager, with the changes above.

    Args:
        learning_rate: of a global step.
        reach: how far copies may be apart, see `Copies`.
    """

    copies: Copies
    local_epoch: int

    def __init__(
        self, *, learning_rate: Callable[[int], float], reach: float, grid: SwarmGrid | None = None, **kwargs: Any
    ):
        self.learning_rate, self.reach, self.grid = learning_rate, reach, grid
        self.settled = threading.Event()  # set while parameters and step number belong together
        self.settled.set()
        super().__init__(heaviest=WEIGHT, **kwargs)
        self._update_scheduler()

    def _init_components(self, *args: Any) -> Any:
        made = super()._init_components(*args)
        self.copies = Copies(Strides(made[0]).newest, self.reach)
        return made

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

    def get_current_state(self) -> tuple[Any, list[torch.Tensor]]:
        """Parameters and optimizer state of `local_epoch` (see upstream), a copy; waits for a step in flight.

        Raises:
            TimeoutError: steps follow each other so closely that there is no moment to copy.
        """
        deadline = time.monotonic() + self._allreduce_timeout
        while time.monotonic() < deadline:
            if not self.settled.wait(deadline - time.monotonic()):
                break
            step = self.local_epoch
            with self.lock_averaged_tensors:
                tensors = [one.detach().clone() for one in self._held()]  # sending takes longer than the next step
            if self.settled.is_set() and self.local_epoch == step:
                return {"epoch": step, "pass": self._own_pass()}, tensors
        raise TimeoutError("no whole state to give out now")

    def load_state_from_peers(
        self, *, newest: int, disputed: bool, believes: Callable[[int], bool], timeout: float
    ) -> bool:
        """Take over a state of this peer's global step or a newer one; returns whether one was taken.

        Args:
            newest: global step of the swarm; if this peer is behind, the state has to be newer than its own.
            disputed: most others have not taken that step.
            believes: whether the swarm has reached a global step.
            timeout: seconds.
        """
        held = self._held()
        wanted = Wanted(
            at_least=self.local_epoch + (newest > self.local_epoch),
            newest=newest,
            disputed=disputed,
            shapes=tuple(tuple(tensor.shape) for tensor in held),
        )
        try:
            loaded = self.download_state(wanted, timeout)
        except (TimeoutError, futures.TimeoutError):  # two classes up to Python 3.10
            logger.warning("a state did not arrive in time")
            return False
        if loaded is None:
            return False
        step, tensors = loaded
        if not believes(step):
            logger.warning(f"refused a state of global step {step}, to which the swarm has not come")
            return False
        with torch.no_grad(), self.lock_averaged_tensors:
            for own, its in zip(held, tensors, strict=True):
                own.copy_(its)
            set_steps(self.optimizer, step)
        self._apply_optimizer_parameters_()
        self.local_epoch = step
        self.copies.forget()
        self._update_scheduler()
        return True

    def _held(self) -> list[torch.Tensor]:
        """All tensors of a state; they are this peer's own, no copies."""
        statistics = nested_flatten(self.optimizer.state_dict())
        return [*parameters_of(self.optimizer), *(one for one in statistics if isinstance(one, torch.Tensor))]


def set_steps(optimizer: torch.optim.Optimizer, step: int) -> None:
    """Have an optimizer count its steps from here: in a run all peers have taken as many as there were global steps."""
    for counted in (*optimizer.param_groups, *optimizer.state.values()):
        if isinstance(counted.get("step"), torch.Tensor):
            counted["step"].fill_(step)
        elif "step" in counted:
            counted["step"] = step
