"""The file of a checkpoint's experts: it answers as the hosts did, and states can be made of it."""

from pathlib import Path

import pytest
import torch

from experts import file_names
from experts.host.files import StateFiles
from experts.host.release import older_versions, pack, unpack
from experts.host.settings import ExpertSettings
from experts.host.state import to_bytes
from experts.host.trained_expert import Gradients, TrainedExpert
from experts.layer.local import LocalExperts
from experts.layer.mixture import MixtureOfExperts
from experts.released import load_experts, steps_of
from experts.versions import steps_taken

SETTINGS = ExpertSettings(grid=(2, 2), width=4, hidden=8)
A, B = (0, 0), (1, 1)


def trained(uid: tuple[int, ...], steps: int) -> TrainedExpert:
    expert = TrainedExpert(uid, SETTINGS)
    generator = torch.Generator().manual_seed(steps)
    for _ in range(steps):
        rows = torch.randn(3, SETTINGS.width, generator=generator)
        expert.backward([Gradients(rows, torch.ones_like(rows), [True] * 3)])
    return expert


@pytest.fixture
def experts() -> dict[tuple[int, ...], TrainedExpert]:
    return {A: trained(A, 3), B: trained(B, 5)}


@pytest.fixture
def files(tmp_path: Path, experts: dict[tuple[int, ...], TrainedExpert]) -> StateFiles:
    files = StateFiles(tmp_path / "states", SETTINGS)
    for uid, expert in experts.items():
        files.write(uid, expert.version, to_bytes(expert))
    return files


def test_released_experts_answer_in_one_process_as_their_hosts_did(
    files: StateFiles, experts: dict[tuple[int, ...], TrainedExpert], tmp_path: Path
):
    assert pack(files, SETTINGS, tmp_path / file_names.EXPERTS) == 2
    caller = LocalExperts(load_experts(tmp_path / file_names.EXPERTS).experts, learning_rate=None)
    rows = torch.randn(6, SETTINGS.width)
    answers = caller.forward(dict.fromkeys((A, B, (0, 1)), rows))
    assert answers.keys() == {A, B}
    for uid, answer in answers.items():
        torch.testing.assert_close(answer, experts[uid].forward(rows))
    layer = MixtureOfExperts(16, SETTINGS.width, SETTINGS.grid, caller, off_share=0.0)
    layer(torch.randn(5, 16))
    assert layer.counts.whole == 1


def test_states_are_made_of_the_file_where_it_has_more_steps(
    files: StateFiles, experts: dict[tuple[int, ...], TrainedExpert], tmp_path: Path
):
    pack(files, SETTINGS, tmp_path / file_names.EXPERTS)
    assert steps_of(tmp_path / file_names.EXPERTS) == {A: 3, B: 5}
    others = StateFiles(tmp_path / "others", SETTINGS)
    newer = trained(B, 9)
    others.write(B, 9, to_bytes(newer))
    unpack(tmp_path / file_names.EXPERTS, SETTINGS, others)
    assert others.versions == {A: 3, B: 9}
    made, kept = others.read(A), others.read(B)
    assert made is not None and kept is not None
    rows = torch.randn(2, SETTINGS.width)
    torch.testing.assert_close(made.forward(rows), experts[A].forward(rows))
    torch.testing.assert_close(kept.forward(rows), newer.forward(rows))


def test_without_states_there_is_no_file(tmp_path: Path):
    assert pack(StateFiles(tmp_path / "states", SETTINGS), SETTINGS, tmp_path / file_names.EXPERTS) == 0
    assert not (tmp_path / file_names.EXPERTS).exists()


def test_after_a_rollback_all_states_are_those_of_the_file_and_newer_than_any_other(
    files: StateFiles, experts: dict[tuple[int, ...], TrainedExpert], tmp_path: Path
):
    pack(files, SETTINGS, tmp_path / file_names.EXPERTS)
    older, young, unseen = experts[A], (0, 1), (1, 0)
    later = {A: trained(A, 9), young: trained(young, 4)}
    for uid, expert in later.items():
        files.write(uid, expert.version, to_bytes(expert))
    versions = older_versions(tmp_path / file_names.EXPERTS, files, served=[A, unseen])
    unpack(tmp_path / file_names.EXPERTS, SETTINGS, files, versions)
    assert files.versions == versions
    assert {uid: steps_taken(version) for uid, version in files.versions.items()} == {A: 3, B: 5, young: 0, unseen: 0}
    assert min(files.versions.values()) > max(expert.version for expert in later.values())
    restored, begun = files.read(A), files.read(young)
    assert restored is not None and begun is not None
    rows = torch.randn(3, SETTINGS.width)
    torch.testing.assert_close(restored.forward(rows), older.forward(rows))
    torch.testing.assert_close(begun.forward(rows), TrainedExpert(young, SETTINGS).forward(rows))
    assert not files.write(A, later[A].version, to_bytes(later[A])), "a host that has not heard of it is late"


def test_each_rollback_is_newer_than_the_one_before(files: StateFiles, tmp_path: Path):
    pack(files, SETTINGS, tmp_path / file_names.EXPERTS)
    versions = []
    for _ in range(3):
        path = tmp_path / file_names.EXPERTS
        unpack(path, SETTINGS, files, older_versions(path, files, served=[]))
        versions.append(files.versions[A])
    assert versions == sorted(set(versions))
    assert {steps_taken(version) for version in versions} == {3}
