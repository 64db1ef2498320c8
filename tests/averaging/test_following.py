"""When a peer takes over a state of others, and which global steps of theirs it believes."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from trainer.averaging import progress
from trainer.averaging.following import StateFollower
from trainer.averaging.progress import SwarmProgress
from trainer.averaging.state import set_steps


@pytest.mark.parametrize(("behind", "is_off", "loads"), [(0, False, False), (1, False, True), (0, True, True)])
def test_who_is_behind_or_has_other_parameters_takes_over_a_state(behind: int, is_off: bool, loads: bool):
    follower: Any = SimpleNamespace(
        local_epoch=5,
        client_mode=False,
        tracker=SimpleNamespace(global_epoch=5 + behind),
        state_averager=SimpleNamespace(copies=SimpleNamespace(is_off=is_off)),
    )
    assert StateFollower._should_load_state_from_peers(follower) == loads


class Told:
    """A tracker that finds these newest global steps in the DHT, one after the other."""

    training_progress_key = "progress"

    def __init__(self, *steps: int):
        self._steps, self.global_progress = iter(steps), SimpleNamespace(epoch=5)
        self.dht = SimpleNamespace(get=lambda key, latest: None)

    @property
    def global_epoch(self) -> int:
        return self.global_progress.epoch

    def _parse_swarm_progress_data(self, metadata: object) -> SimpleNamespace:
        return SimpleNamespace(epoch=next(self._steps))


def test_a_step_that_was_just_taken_is_believed_once_it_is_told(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(progress, "FASTEST_REPORT", 0.0)
    assert SwarmProgress.believes(Told(), 5)  # type: ignore[arg-type]
    assert SwarmProgress.believes(Told(5, 5, 6), 6)  # type: ignore[arg-type]


def test_a_step_that_nobody_tells_of_is_not_believed(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(progress, "TOLD_WITHIN", 0.01)
    assert not SwarmProgress.believes(Told(5), 1_000_000)  # type: ignore[arg-type]


def test_an_optimizer_counts_its_steps_from_the_global_step_wherever_it_has_the_number():
    parameter = torch.nn.Parameter(torch.ones(3))
    parameter.grad = torch.ones(3)
    of_torch = torch.optim.AdamW([parameter])
    of_torch.step()
    by_group = torch.optim.SGD([{"params": [parameter], "step": 1}])
    for optimizer in (of_torch, by_group):
        set_steps(optimizer, 42)
    assert float(of_torch.state[parameter]["step"]) == 42.0
    assert by_group.param_groups[0]["step"] == 42
