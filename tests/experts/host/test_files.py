"""The folder of a host: what was written is found again, and nothing else."""

from pathlib import Path

import torch

from experts.host.files import StateFiles
from experts.host.settings import ExpertSettings
from experts.host.state import longest_state, to_bytes
from experts.host.trained_expert import Gradients, TrainedExpert

SETTINGS = ExpertSettings(grid=(2, 12), width=8, hidden=16)
UID = (1, 11)


def state(steps: int) -> bytes:
    expert = TrainedExpert(UID, SETTINGS)
    for _ in range(steps):
        expert.backward([Gradients(torch.ones(1, 8), torch.ones(1, 8), [True])])
    return to_bytes(expert)


def test_an_expert_comes_back_with_its_version(tmp_path: Path):
    files = StateFiles(tmp_path / "experts", SETTINGS)
    assert files.read(UID) is None
    assert files.versions() == {}
    files.write(UID, state(1))
    files.write(UID, state(2))
    again = StateFiles(tmp_path / "experts", SETTINGS)
    assert again.versions() == {UID: 2}
    expert = again.read(UID)
    assert expert is not None
    assert to_bytes(expert) == state(2)


def test_what_is_no_state_is_as_if_it_were_not_there(tmp_path: Path):
    files = StateFiles(tmp_path, SETTINGS)
    good = state(1)
    for name, content in {
        "0.1.safetensors": good[:-1],
        "0.2.safetensors": b"",
        "0.3.safetensors": bytes(longest_state(SETTINGS) + 1),
        "9.9.safetensors": good,
        "0.safetensors": good,
        "01.01.safetensors": good,
        "x.y.safetensors": good,
        "0.4.pickle": good,
        "1.1.safetensors": good,
    }.items():
        (tmp_path / name).write_bytes(content)
    assert files.versions() == {(1, 1): 1}
    assert files.read((0, 1)) is None
