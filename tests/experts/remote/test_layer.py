"""The layer with experts on hosts learns as with experts in its own process."""

import pytest
import torch
from torch import Tensor

from experts.calls import ExpertCaller
from experts.layer.local import LocalExperts
from experts.layer.mixture import MixtureOfExperts
from tests.experts.remote.small_hosts import ALL, SETTINGS, SmallHosts

pytestmark = pytest.mark.swarm

TRUNK = 12
STEPS = 60


def layer(caller: ExpertCaller) -> MixtureOfExperts:
    torch.manual_seed(0)
    return MixtureOfExperts(TRUNK, SETTINGS.width, SETTINGS.grid, caller, off_share=0.0)


def losses(trained: MixtureOfExperts) -> list[float]:
    """Of learning what cannot be learned by a trunk that adds nothing."""
    chance = torch.Generator().manual_seed(1)
    rows = torch.randn(64, TRUNK, generator=chance)
    wanted = torch.tanh(rows @ torch.randn(TRUNK, TRUNK, generator=chance)).roll(1, dims=1)
    optimizer = torch.optim.Adam(trained.parameters(), lr=0.01)
    seen = []
    for _ in range(STEPS):
        loss: Tensor = (trained(rows).added - wanted).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        seen.append(float(loss.detach()))
    return seen


def test_it_learns_as_with_experts_in_its_own_process(hosts: SmallHosts):
    first, second = hosts.host(ALL[:2]), hosts.host(ALL[2:])
    far = losses(layer(hosts.caller(first, second)))
    near = losses(layer(LocalExperts({uid: SETTINGS.new(uid) for uid in ALL}, learning_rate=SETTINGS.learning_rate)))
    assert near[-1] < 0.8 * near[0]  # else it is not said what it learns
    assert far[-1] == pytest.approx(near[-1], rel=0.1)
    assert all(version > 0 for host in (first, second) for version in host.versions.values())
