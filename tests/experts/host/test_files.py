"""The folder of a host: what was written is found again, and nothing else."""

from pathlib import Path

import torch

from experts.host.files import StateFiles
from experts.host.settings import ExpertSettings
from experts.host.state import longest_state, to_bytes
from experts.host.trained_expert import Gradients, TrainedExpert
from swarm.files import PARTIAL

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
    assert files.versions == {}
    assert files.write(UID, 1, state(1))
    assert files.write(UID, 2, state(2))
    assert files.versions == {UID: 2}
    again = StateFiles(tmp_path / "experts", SETTINGS)
    again.load()
    assert again.versions == {UID: 2}
    expert = again.read(UID)
    assert expert is not None
    assert to_bytes(expert) == state(2)


def test_a_file_is_not_replaced_by_one_with_fewer_steps(tmp_path: Path):
    StateFiles(tmp_path, SETTINGS).write(UID, 2, state(2))
    files = StateFiles(tmp_path, SETTINGS)
    files.load()
    assert not files.write(UID, 1, state(1))
    expert = files.read(UID)
    assert expert is not None
    assert expert.version == 2
    assert files.write(UID, 2, state(2))


def test_a_damaged_file_is_replaced_by_any(tmp_path: Path):
    files = StateFiles(tmp_path, SETTINGS)
    files.write(UID, 2, state(2))
    (tmp_path / "1.11.safetensors").write_bytes(b"")
    assert files.read(UID) is None
    assert files.write(UID, 1, state(1))


def test_what_was_not_written_whole_is_cleared_away(tmp_path: Path):
    files = StateFiles(tmp_path, SETTINGS)
    files.write(UID, 1, state(1))
    (tmp_path / f".1.11.safetensors{PARTIAL}new-1-1").write_bytes(b"half")
    files.load()
    assert [path.name for path in tmp_path.iterdir()] == ["1.11.safetensors"]


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
    files.load()
    assert files.versions == {(1, 1): 1}
    assert files.read((0, 1)) is None
