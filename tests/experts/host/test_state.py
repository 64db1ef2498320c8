"""States as bytes: the same expert comes back, and nothing else is taken."""

import dataclasses
import json
import pickle

import pytest
import torch
from safetensors.torch import load, save

from experts.directory.records import LARGEST_VERSION
from experts.host.settings import ExpertSettings
from experts.host.state import MAX_MAGNITUDE, MAX_VERSION, from_bytes, longest_state, to_bytes
from experts.host.trained_expert import Gradients, TrainedExpert

SETTINGS = ExpertSettings(grid=(2, 2), width=8, hidden=16)
UID = (1, 1)


def gradients(seed: int) -> Gradients:
    inputs, outputs = torch.randn(2, 4, SETTINGS.width, generator=torch.Generator().manual_seed(seed))
    return Gradients(inputs, outputs, [True] * 4)


def trained(steps: int) -> TrainedExpert:
    expert = TrainedExpert(UID, SETTINGS)
    for seed in range(steps):
        expert.backward([gradients(seed)])
    return expert


@pytest.mark.parametrize("steps", [0, 3])
def test_an_expert_goes_on_as_if_nothing_had_happened(steps: int):
    expert = trained(steps)
    state = to_bytes(expert)
    assert len(state) <= longest_state(SETTINGS)
    copy = from_bytes(UID, SETTINGS, state)
    assert copy.version == steps
    for one in (expert, copy):
        one.backward([gradients(99)])
    assert to_bytes(copy) == to_bytes(expert)


def changed(name: str, value: torch.Tensor | None) -> bytes:
    tensors = load(to_bytes(trained(2)))
    if value is None:
        del tensors[name]
    else:
        tensors[name] = value
    return bytes(save(tensors))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("into.weight", None),
        ("into.weight.mean", None),
        ("version", None),
        ("steps", None),
        ("version", torch.tensor(-1)),
        ("version", torch.tensor([1, 2])),
        ("version", torch.tensor(1.0)),
        ("steps", torch.tensor(float("nan"))),
        ("into.weight", torch.zeros(8, 16)),
        ("into.weight", torch.zeros(16, 8, dtype=torch.float64)),
        ("into.bias", torch.full((16,), float("inf"))),
        ("into.bias.mean", torch.full((16,), float("nan"))),
        ("into.bias.variance", torch.full((16,), -1.0)),
        ("version", torch.tensor(MAX_VERSION + 1)),
        ("into.bias", torch.full((16,), -2 * MAX_MAGNITUDE)),
        ("into.bias.mean", torch.full((16,), 2 * MAX_MAGNITUDE)),
        ("into.bias.variance", torch.full((16,), 2 * MAX_MAGNITUDE)),
        ("into.bias.variance", torch.zeros(16)),  # below a mean: the next step would have no bounds
        ("more", torch.zeros(1)),
    ],
)
def test_what_is_no_state_of_this_expert_is_refused(name: str, value: torch.Tensor | None):
    with pytest.raises(ValueError, match=r"\w"):
        from_bytes(UID, SETTINGS, changed(name, value))


def test_the_moments_of_any_gradients_are_taken():
    """They grow, stop, and come back; the first ones are too small for their squares."""
    expert = trained(0)
    for scale in (1e-25, *(1e-6 * 1.11**step for step in range(150)), *[0.0] * 100, 1.0):
        one = gradients(1)
        expert.backward([dataclasses.replace(one, outputs=scale * one.outputs)])
        assert from_bytes(UID, SETTINGS, to_bytes(expert)).version == expert.version


def test_the_last_version_that_is_taken_can_go_on_for_long():
    expert = TrainedExpert(UID, SETTINGS, MAX_VERSION)
    assert from_bytes(UID, SETTINGS, to_bytes(expert)).version + 2**20 <= LARGEST_VERSION


def test_a_type_that_torch_does_not_have_is_refused():
    head = json.dumps({"x": {"dtype": "F8_E8M0", "shape": [1], "data_offsets": [0, 1]}}).encode()
    with pytest.raises(ValueError, match="not a state"):
        from_bytes(UID, SETTINGS, len(head).to_bytes(8, "little") + head + b"0")


@pytest.mark.parametrize("state", [b"", b"\x00" * 8, b"\xff" * 100, pickle.dumps({"version": 1})])
def test_what_is_no_state_at_all_is_refused(state: bytes):
    with pytest.raises(ValueError, match="not a state"):
        from_bytes(UID, SETTINGS, state)


def test_a_state_of_other_settings_or_endless_is_refused():
    state = to_bytes(trained(1))
    with pytest.raises(ValueError, match="no tensor of shape"):
        from_bytes(UID, dataclasses.replace(SETTINGS, hidden=17), state)
    with pytest.raises(ValueError, match="bytes"):
        from_bytes(UID, SETTINGS, state + bytes(longest_state(SETTINGS)))
